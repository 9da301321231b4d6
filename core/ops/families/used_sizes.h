// Evaluation over dimensions of dynamic size.
//
// A literal of dynamic shape holds its bound; elements past the size are there and mean nothing. An operation on each
// element by itself may compute them along. One that moves elements across such a dimension, or combines those along
// it, must not see them: it is evaluated on arrays of the sizes in use, and its result put back into the bound's.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_
#define BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_

#include "core/ops/op_info.h"

namespace backplane {

// Whether that is how this operation has to be evaluated on these operands.
bool NeedsUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands);
absl::StatusOr<Literal> EvaluateOverUsedSizes(const OpContext& op, absl::Span<const Literal* const> operands,
                                              EvalEnv& env);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_USED_SIZES_H_
