#include "absl/container/flat_hash_set.h"
#include "core/passes/calls.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<bool> UnshareComputations::Run(Module* module) {
  RETURN_IF_ERROR(CheckCallBudget(*module));
  bool changed = false;
  absl::flat_hash_set<const Computation*> owned;
  // Visits callers before callees, so that the loops of a clone are visited too.
  std::vector<Computation*> work = {module->entry()};
  while (!work.empty()) {
    Computation* c = work.back();
    work.pop_back();
    for (Instruction* i : c->Snapshot()) {
      if (!i->info().Has(kControlFlow)) continue;
      for (size_t k = 0; k < i->called().size(); ++k) {
        Computation* callee = i->called(static_cast<int64_t>(k));
        if (!owned.insert(callee).second) {
          callee = module->CloneComputation(callee);
          i->set_called(static_cast<int64_t>(k), callee);
          owned.insert(callee);
          changed = true;
        }
        work.push_back(callee);
      }
    }
  }
  return changed;
}

}  // namespace backplane
