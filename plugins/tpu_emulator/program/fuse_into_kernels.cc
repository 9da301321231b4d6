#include "plugins/tpu_emulator/program/fuse_into_kernels.h"

#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/program/kernel_policy.h"

namespace backplane::tpu {

absl::StatusOr<bool> FuseIntoKernels::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    KernelPolicy policy(widen_);
    ASSIGN_OR_RETURN(const bool fused, compiler::FusionGraph(c, &policy).Fuse());
    changed |= fused;
  }
  return changed;
}

}  // namespace backplane::tpu
