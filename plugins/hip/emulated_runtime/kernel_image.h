// The images of kernels that modules hold: code objects of AMD's GPUs and host images.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_KERNEL_IMAGE_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_KERNEL_IMAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "plugins/hip/emulated_runtime/heap.h"
#include "plugins/hip/emulated_runtime/second_thread.h"
#include "plugins/hip/isa/interpreter.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip::emulated {

struct KernelParameter {
  uint32_t offset = 0, bytes = 0;
};

struct KernelFacts {
  std::string name;
  uint32_t threads = 0;  // of a block; 0: any number up to max_threads
  uint32_t max_threads = 1024;
  uint32_t argument_bytes = 0;  // the explicit ones
  uint32_t shared_bytes = 0, scratch_bytes = 0, registers = 0;
  bool has_parameters = false;  // whether `parameters` is known
  std::vector<KernelParameter> parameters;
};

struct KernelLaunch {
  hipDim3 blocks, threads;
  uint32_t dynamic_shared_bytes = 0;
  absl::Span<const uint8_t> arguments;
  const isa::MemoryGuard* guard = nullptr;
  SecondThread* second = nullptr;  // may run blocks as well; may be null
};

// Thread-safe.
class KernelImage {
 public:
  virtual ~KernelImage() = default;
  // Returns null if there is no such kernel.
  virtual const KernelFacts* Find(absl::string_view name) const = 0;
  // Runs all blocks. Returns OutOfRange for an access to memory that the guard does not know; any other error is a
  // failure of the kernel.
  virtual absl::Status Run(const KernelFacts& kernel, const KernelLaunch& launch) const = 0;
  virtual std::optional<AddressRange> FindVariable(absl::string_view name) const = 0;
  // Whether Run asks the guard about each access.
  virtual bool traces_accesses() const = 0;
};

// Returns the bytes of the ELF file that begins at `image`, as its headers state them, or InvalidArgument if it is
// none.
absl::StatusOr<absl::string_view> MeasureElf(const void* image);
// The value and size of a symbol of the dynamic symbol table.
struct ElfSymbol {
  uint64_t value = 0, bytes = 0;
};
std::optional<ElfSymbol> FindElfSymbol(absl::string_view elf, absl::string_view name);
bool IsAmdCodeObject(absl::string_view elf);

// Loads a code object of AMD's GPUs, which the interpreter runs. Returns NotFound if it is for another machine than
// `architecture`.
absl::StatusOr<std::unique_ptr<KernelImage>> LoadAmdImage(absl::string_view elf, absl::string_view architecture);
// Loads a host image (plugins/hip/lowering/host_image.h), which the host runs.
absl::StatusOr<std::unique_ptr<KernelImage>> LoadHostImage(absl::string_view elf);

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_KERNEL_IMAGE_H_
