#include "core/passes/replace_each.h"

#include <string>
#include <utility>

#include "core/passes/loop_builder.h"
#include "core/passes/order_effects.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<bool> RewriteEach(Module* module,
                                 absl::FunctionRef<absl::StatusOr<bool>(Computation*, Instruction*)> rewrite) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      ASSIGN_OR_RETURN(const bool replaced, rewrite(c, i));
      here |= replaced;
    }
    if (!here) continue;
    c->RemoveDead();
    c->SortTopologically();
    changed = true;
  }
  // Also if nothing was replaced: a rewrite may have begun a computation and given it up.
  module->RemoveUnreachableComputations();
  return changed;
}

absl::StatusOr<bool> ReplaceEach(
    Module* module, absl::string_view name, absl::FunctionRef<bool(const Instruction&)> matches,
    absl::FunctionRef<absl::StatusOr<Value>(Builder& b, const Instruction& i, std::vector<Value> x)> build) {
  return RewriteEach(module, [&](Computation* c, Instruction* i) -> absl::StatusOr<bool> {
    if (!matches(*i)) return false;
    Builder b(module, std::string(name));
    b.set_metadata(i->metadata());
    std::vector<Value> x;
    for (int64_t k = 0; k < i->operand_count(); ++k) {
      ASSIGN_OR_RETURN(Value p, b.Parameter(k, i->operand(k)->shape()));
      x.push_back(p);
    }
    ASSIGN_OR_RETURN(Value result, build(b, *i, std::move(x)));
    if (result == nullptr) return false;  // the unfinished computation is unreachable
    ASSIGN_OR_RETURN(const Computation* body, b.Build(result));
    ReplaceByInlined(i, body);
    if (i->HasSideEffect()) RETURN_IF_ERROR(c->Remove(i));
    return true;
  });
}

}  // namespace backplane
