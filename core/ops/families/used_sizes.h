// Evaluation over dimensions of dynamic size.
//
// A literal of dynamic shape holds as many elements as its bound; those beyond the dynamic size have no meaning. An
// elementwise operation may compute them too. An operation that moves or combines elements along a dynamic dimension
// must not see them: it is evaluated on arrays of the dynamic sizes, and its result copied into an array of the bounds.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_
#define BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_

#include "core/ops/op_info.h"

namespace backplane {

// Whether the operation has to be evaluated so on these operands.
bool NeedsUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands);
absl::StatusOr<Literal> EvaluateOverUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands,
                                              EvalEnv& env);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_
