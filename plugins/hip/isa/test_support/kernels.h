// For tests: code objects from LLVM IR, from assembly, or from a module, made in this process; and launches on host
// memory.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_TEST_SUPPORT_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_TEST_SUPPORT_KERNELS_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/hip/isa/interpreter.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace backplane::hip::isa {

inline constexpr const char* kMachines[] = {"gfx942", "gfx1100"};

// Registers LLVM's AMDGPU back end, assembler and disassembler. May be called often.
void InitializeAmdGpu();
// Links a relocatable object to a code object.
absl::StatusOr<std::string> LinkCodeObject(const std::string& object);
// IR as text, without triple and data layout. Kernels get attributes of the machine.
absl::StatusOr<std::string> CompileIr(absl::string_view machine, absl::string_view ir);
// Assembly for one machine with .amdhsa_kernel directives.
absl::StatusOr<std::string> Assemble(absl::string_view machine, absl::string_view assembly);

// A kernel in assembly: directives around `body`, which gets the argument pointer in s[0:1], the block number in s15 on
// gfx1100 and s2 on gfx942, and the thread number in v0. Arguments are `pointers` addresses.
std::string KernelAssembly(absl::string_view machine, absl::string_view body, int pointers, int lds_bytes);

// Replaces the `occurrence`th word of the code that equals `word` under `mask` by s_nop. False if there is none.
bool ReplaceByNop(std::string& elf, uint32_t word, uint32_t mask, int occurrence);

// Explicit arguments, each at its natural alignment.
class Arguments {
 public:
  template <class T>
  Arguments& Add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    bytes_.resize(bytes_.size() + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
    return *this;
  }
  absl::Span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Loads and runs one kernel.
absl::StatusOr<Statistics> RunKernel(const std::string& elf, const std::string& kernel, Dim3 blocks, Dim3 threads,
                                     const Arguments& arguments, const MemoryGuard* guard = nullptr,
                                     uint32_t dynamic_lds = 0);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_TEST_SUPPORT_KERNELS_H_
