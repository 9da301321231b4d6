#include "sdk/engine/compiler/fuse.h"

#include "absl/algorithm/container.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/engine/compiler/fusion_policy.h"

namespace backplane::engine {

namespace {

bool IsArgumentOrConstant(const Instruction* i) { return i->Is(Opcode::kParameter) || i->Is(Opcode::kConstant); }

// A kernel that reads the result of a convolution can follow it in parts (FollowedConvolutionThunk) if it is the next
// step. What else it needs and depends on arguments alone, as factors for each channel, is computed before.
void OrderBeforeConvolutions(Computation* c) {
  bool changed = false;
  for (Instruction* convolution : c->Snapshot()) {
    if (!convolution->Is(Opcode::kConvolution) || convolution->users().size() != 1) continue;
    const Instruction* reader = *convolution->users().begin();
    if (!reader->Is(Opcode::kFusion)) continue;
    for (Instruction* operand : reader->operands()) {
      if (!operand->Is(Opcode::kFusion) || !absl::c_all_of(operand->operands(), IsArgumentOrConstant) ||
          !operand->control_predecessors().empty())
        continue;
      convolution->AddControlPredecessor(operand);
      changed = true;
    }
  }
  if (changed) c->SortTopologically();
}

}  // namespace

absl::StatusOr<bool> Fuse::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    SplitShortBroadcasts(c);
    DuplicateCheapProducers(c, lowering_);
    EngineFusionPolicy policy(lowering_);
    ASSIGN_OR_RETURN(const bool fused, compiler::FusionGraph(c, &policy).Fuse());
    changed |= fused;
    OrderBeforeConvolutions(c);
  }
  return changed;
}

}  // namespace backplane::engine
