// The loop of passes that look at each instruction of a module once and replace some of them.
#ifndef BACKPLANE_CORE_PASSES_REPLACE_EACH_H_
#define BACKPLANE_CORE_PASSES_REPLACE_EACH_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ir/builder.h"

namespace backplane {

// Calls `rewrite` for each instruction that CollectControlFlowComputations(module) have at the start, callees first.
// `rewrite` may add instructions in any order, and returns whether it replaced the uses of its instruction. Afterwards
// the changed computations are sorted, and dead instructions and unreachable computations are removed. Returns whether
// anything was replaced.
absl::StatusOr<bool> RewriteEach(Module* module,
                                 absl::FunctionRef<absl::StatusOr<bool>(Computation*, Instruction*)> rewrite);

// Replaces each instruction for which `matches` is true by a body that `build` adds to a builder. The builder has the
// instruction's metadata and one parameter for each operand, `x`; the computation that it builds is called `name` and
// is inlined. If `build` returns null, the instruction stays. An instruction with a side effect is removed as well,
// because its replacement has the effect now.
absl::StatusOr<bool> ReplaceEach(
    Module* module, absl::string_view name, absl::FunctionRef<bool(const Instruction&)> matches,
    absl::FunctionRef<absl::StatusOr<Value>(Builder& b, const Instruction& i, std::vector<Value> x)> build);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REPLACE_EACH_H_
