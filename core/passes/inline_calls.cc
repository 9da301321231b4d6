#include "absl/container/flat_hash_set.h"
#include "core/passes/calls.h"
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::StatusOr<bool> InlineWhere(Module* module, bool all) {
  RETURN_IF_ERROR(CheckCallBudget(*module));
  // In a reducer or comparator all calls are inlined: there a call has no meaning of its own.
  absl::flat_hash_set<const Computation*> running;
  for (const Computation* c : CollectControlFlowComputations(module)) running.insert(c);
  bool changed = false;
  // Callees are visited first, so an inlined computation contains no calls any more.
  for (Computation* c : module->PostOrder()) {
    auto goes = [&](const Instruction* i) {
      return i->Is(Opcode::kCall) && (all || !IsMarkedNotInlineable(*i) || !running.contains(c));
    };
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (!goes(i)) continue;
      ReplaceByInlined(i, i->called(0));
      here = true;
    }
    if (!here) continue;
    // RemoveDead keeps a call whose callee has a side effect, so it is removed explicitly.
    for (Instruction* i : c->Snapshot()) {
      if (!goes(i) || !i->users().empty() || i == c->root()) continue;
      if (absl::Status s = c->Remove(i); !s.ok()) return s;
    }
    c->SortTopologically();
    changed = true;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace

bool IsMarkedNotInlineable(const Instruction& i) {
  if (!i.Is(Opcode::kCall)) return false;
  auto says = i.frontend_attributes().find("inlineable");
  return says != i.frontend_attributes().end() && says->second == "false";
}

absl::StatusOr<bool> InlineCalls::Run(Module* module) { return InlineWhere(module, false); }

absl::StatusOr<bool> InlineAllCalls(Module* module) { return InlineWhere(module, true); }

}  // namespace backplane
