#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {

absl::StatusOr<bool> InlineCalls::Run(Module* module) {
  bool changed = false;
  // Callees come first, so what is inlined holds no calls any more.
  for (Computation* c : module->PostOrder()) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kCall)) continue;
      Replace(i, Inline(c, i->called(0), i->operands()));
      here = true;
    }
    if (!here) continue;
    // A call whose callee has a side effect is kept by RemoveDead: take it out by name.
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kCall) || !i->users().empty() || i == c->root()) continue;
      if (absl::Status s = c->Remove(i); !s.ok()) return s;
    }
    c->SortTopologically();
    changed = true;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane
