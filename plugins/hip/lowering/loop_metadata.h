// What LLVM is told about loops.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_LOOP_METADATA_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_LOOP_METADATA_H_

#include <cstdint>

#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// Each sets the metadata of a loop in place of any that it had. `latch` is the branch to the loop's next iteration.

// Attaches one property, a node such as !{!"llvm.loop.unroll.disable"}.
void SetLoopProperty(llvm::Instruction& latch, llvm::MDNode* property);
// Makes LLVM unroll an innermost loop, so that one iteration does the work of `copies`.
void UnrollLoop(llvm::Instruction& latch, int64_t copies);
// Keeps LLVM from unrolling the loop.
void KeepLoopRolled(llvm::Instruction& latch);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_LOOP_METADATA_H_
