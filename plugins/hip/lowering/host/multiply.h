// gpu.multiply (gpu_ir.h) on the host: the function that computes a thread's sums from the words of its group.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_MULTIPLY_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_MULTIPLY_H_

#include <cstdint>

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace backplane::hip {

// The size of what a thread of the group stores for the others: its words of the left matrix, then those of the right
// one.
inline constexpr uint64_t kFactorBytes = 48;

// Defines the function for a gpu.multiply of this name, internal to the module. It takes (ptr factors, i32 thread,
// sums) and returns sums; `factors` has kFactorBytes for each thread of the group, and `thread` is below 32.
llvm::Function* DefineMultiply(llvm::Module& module, llvm::StringRef name);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_MULTIPLY_H_
