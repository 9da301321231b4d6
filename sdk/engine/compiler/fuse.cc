#include "sdk/engine/compiler/fuse.h"

#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/engine/compiler/fusion_policy.h"

namespace backplane::engine {

absl::StatusOr<bool> Fuse::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    DuplicateCheapProducers(c, lowering_);
    EngineFusionPolicy policy(lowering_);
    ASSIGN_OR_RETURN(const bool fused, compiler::FusionGraph(c, &policy).Fuse());
    changed |= fused;
  }
  return changed;
}

}  // namespace backplane::engine
