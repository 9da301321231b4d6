// Evaluation over dimensions of dynamic size.
//
// A literal of dynamic shape holds as many elements as its bound. Elements beyond the dynamic size have no meaning. An
// elementwise operation may compute them as well. An operation that moves or combines elements along a dynamic
// dimension must not read them: it is evaluated on arrays of the dynamic sizes, and its result is copied into an array
// of the bounds.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_
#define BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_

#include "core/ops/op_info.h"

namespace backplane {

// Returns Unimplemented if the operation would read elements past the dynamic sizes of these operands.
absl::Status CheckUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands);
// Whether the operation must be evaluated on arrays of the dynamic sizes for these operands.
bool NeedsUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands);
// Evaluates the operation on arrays of the dynamic sizes. The result has the declared bounds and its dynamic sizes.
absl::StatusOr<Literal> EvaluateOverUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands,
                                              EvalEnv& env);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_
