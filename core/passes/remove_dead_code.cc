#include "core/passes/passes.h"

namespace backplane {

absl::StatusOr<bool> RemoveDeadCode::Run(Module* module) {
  int64_t removed = 0;
  for (const auto& c : module->computations()) removed += c->RemoveDead();
  removed += module->RemoveUnreachableComputations();
  return removed > 0;
}

}  // namespace backplane
