// Finds the kernels of a module and checks that they are as gpu_ir.h describes.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_KERNELS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "llvm/ADT/StringRef.h"
#include "plugins/hip/lowering/lowering.h"

namespace llvm {
class CallInst;
class Function;
class GlobalVariable;
class Instruction;
class Module;
}  // namespace llvm

namespace backplane::hip {

struct Kernel {
  llvm::Function* function = nullptr;
  int threads = 0;
  // The calls of gpu.* functions in its body.
  std::vector<llvm::CallInst*> calls;
  // has_group tells whether the kernel calls functions that the threads of a group execute together, other than
  // shuffles. Those of gpu.group do not count: what they exchange is in shared memory.
  bool has_barrier = false, has_shuffle = false, has_group = false, reads_block = false, reads_blocks = false;
  std::vector<llvm::GlobalVariable*> shared;  // in the module's order
  int shared_bytes = 0;
};

// Returns the alignment of a variable in shared memory, in bytes.
uint64_t ComputeSharedAlignment(const llvm::GlobalVariable& variable);

// Whether the name is that of a function that multiplies matrices.
bool IsMultiply(llvm::StringRef name);
// The parts of the name of a function gpu.group.multiply or gpu.group.wait.
struct GroupProduct {
  llvm::StringRef type;  // "bf16"
  unsigned columns = 0;
};
// Returns nullopt if the name is none of these.
std::optional<GroupProduct> ParseGroupProduct(llvm::StringRef name);
// Returns the gpu.* function that the instruction calls, whatever the types of pointers are; null if it calls another
// one or none.
const llvm::Function* FindCalledGpuFunction(const llvm::Instruction& i);

// Returns an error if the module is not as gpu_ir.h describes. Functions that call gpu.* functions or use shared memory
// are marked for inlining, because only a kernel has threads.
absl::Status CheckModule(llvm::Module& module, const GpuTarget& target);

// Returns the kernels of a checked module in which marked functions have been inlined.
absl::StatusOr<std::vector<Kernel>> DescribeKernels(llvm::Module& module, const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_KERNELS_H_
