// gpu.group.multiply and gpu.group.wait (gpu_ir.h) on the host: a thread computes its sums from the slices in shared
// memory, which it may read like any other thread.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_GROUP_MULTIPLY_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_GROUP_MULTIPLY_H_

namespace llvm {
class CallInst;
class Value;
}  // namespace llvm

namespace backplane::hip {

// Replaces a call. `thread` is the number of the thread in its block.
void LowerGroupProduct(llvm::CallInst& call, llvm::Value* thread);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_GROUP_MULTIPLY_H_
