// The functions gpu.group (gpu_ir.h) as instructions of sm_90a.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_GROUPS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_GROUPS_H_

#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// Returns what replaces a call of one of them; null if it has no result.
llvm::Value* LowerGroupCall(llvm::IRBuilder<>& b, const llvm::CallInst& call);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_GROUPS_H_
