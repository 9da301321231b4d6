// Makes the shapes of two operands equal before an elementwise operation, as XLA's builder does.
#ifndef BACKPLANE_CORE_IR_OPS_BROADCASTING_H_
#define BACKPLANE_CORE_IR_OPS_BROADCASTING_H_

#include "core/ir/builder.h"

namespace backplane::hlo {

// Replaces *lhs and *rhs by broadcasts of themselves where needed. If the ranks differ, `broadcast_dimensions` names,
// strictly increasing, the dimension of the larger operand for each dimension of the smaller one; a scalar needs none.
// Afterwards dimensions of size 1 expand to the size of the other operand. Error messages name `opcode`. Errors: see
// core/ir/ops/elementwise.h.
absl::Status BroadcastOperands(Builder& b, Opcode opcode, Value* lhs, Value* rhs,
                               absl::Span<const int64_t> broadcast_dimensions);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_BROADCASTING_H_
