// A code object in memory: its segments, kernels and, as waves reach them, its functions as instructions.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_CODE_LOADED_CODE_H_
#define BACKPLANE_PLUGINS_HIP_ISA_CODE_LOADED_CODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "plugins/hip/isa/interpreter.h"
#include "plugins/hip/isa/machine/instruction.h"

namespace backplane::hip::isa {

class Disassembler;

// Instructions in the order of their addresses.
struct Function {
  std::string name;
  uint64_t address = 0, bytes = 0;
  std::vector<Instruction> code;
  std::vector<uint32_t> index_of_word;  // for each 4 bytes, the instruction that begins there, or kNoInstruction
  static constexpr uint32_t kNoInstruction = ~0u;

  uint32_t FindIndex(uint64_t at) const {
    const uint64_t word = (at - address) / 4;
    return at >= address && at % 4 == 0 && word < index_of_word.size() ? index_of_word[word] : kNoInstruction;
  }
};

// The fields of the kernel descriptor ("Code Object V3 Kernel Descriptor" in LLVM's AMDGPU guide) that set up waves.
struct KernelDescriptor {
  uint32_t lds_bytes = 0, scratch_bytes = 0;
  uint64_t entry = 0;  // address
  uint32_t resource1 = 0, resource2 = 0, resource3 = 0;
  uint16_t properties = 0, preload = 0;
};

class LoadedCode : public CodeObject {
 public:
  LoadedCode();
  ~LoadedCode() override;
  absl::Status Load(absl::string_view elf);

  const std::string& target() const override { return target_; }
  const std::vector<KernelInfo>& kernels() const override { return kernels_; }
  absl::StatusOr<uint64_t> FindSymbolAddress(absl::string_view name) const override;
  bool Owns(uint64_t address, uint64_t bytes) const override {
    return address >= base_ && bytes <= image_bytes_ && address - base_ <= image_bytes_ - bytes;
  }

  Machine machine() const { return machine_; }
  uint64_t base() const { return base_; }
  const KernelDescriptor& descriptor(size_t kernel) const { return descriptors_[kernel]; }
  bool UsesDynamicStack(size_t kernel) const { return dynamic_stack_[kernel]; }
  // Decodes the function that contains the address at the first call. Null if none does.
  const Function* FunctionAt(uint64_t address) const;

 private:
  struct Range {
    std::string name;
    uint64_t bytes = 0;
  };

  absl::Status LoadSegments(absl::string_view elf);
  absl::Status ReadSymbols(absl::string_view elf);
  absl::Status Relocate(absl::string_view elf);
  absl::Status ReadMetadata(absl::string_view elf);

  std::string target_;
  Machine machine_ = Machine::kGfx942;
  std::vector<uint8_t> memory_;
  uint64_t base_ = 0, image_bytes_ = 0;  // of the image within memory_, aligned to a page; ELF addresses count from it
  std::vector<KernelInfo> kernels_;
  std::vector<KernelDescriptor> descriptors_;
  std::vector<bool> dynamic_stack_;
  std::map<uint64_t, Range> ranges_;  // of functions, by address
  absl::flat_hash_map<std::string, uint64_t> symbols_;

  mutable Mutex mu_;
  std::unique_ptr<Disassembler> disassembler_;
  mutable std::map<uint64_t, std::unique_ptr<Function>> functions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_CODE_LOADED_CODE_H_
