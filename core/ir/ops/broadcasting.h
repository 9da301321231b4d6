// Makes the shapes of two operands equal before an elementwise operation, as XLA's builder does.
#ifndef BACKPLANE_CORE_IR_OPS_BROADCASTING_H_
#define BACKPLANE_CORE_IR_OPS_BROADCASTING_H_

#include "core/ir/builder.h"

namespace backplane::hlo {

// Replaces *lhs and *rhs by broadcasts of themselves where needed. Ranks differ: `broadcast_dimensions` names, strictly
// increasing, the dimension of the larger operand that each dimension of the smaller one corresponds to; a scalar needs
// none. Then sizes of 1 expand. `opcode` is what error messages name. Errors: see core/ir/ops/elementwise.h.
absl::Status BroadcastOperands(Builder& b, Opcode opcode, Value* lhs, Value* rhs,
                               absl::Span<const int64_t> broadcast_dimensions);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_BROADCASTING_H_
