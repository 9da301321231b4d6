#include "plugins/tpu_emulator/program/inline_fusions.h"

#include <vector>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane::tpu {

absl::StatusOr<bool> InlineFusions(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kFusion)) continue;
      here = true;
      Instruction* root = Inline(c, i->called(0), i->operands());
      if (!root->Is(Opcode::kTuple)) {
        i->ReplaceAllUsesWith(root);
        continue;
      }
      const std::vector<Instruction*> users(i->users().begin(), i->users().end());
      for (Instruction* user : users) {
        if (user->Is(Opcode::kGetTupleElement)) user->ReplaceAllUsesWith(root->operand(user->tuple_index()));
      }
      if (i->IsRoot() || !i->users().empty()) i->ReplaceAllUsesWith(root);
    }
    if (!here) continue;
    c->SortTopologically();
    c->RemoveDead();
    changed = true;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane::tpu
