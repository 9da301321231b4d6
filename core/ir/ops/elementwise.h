// Builders of elementwise operations: each result element is computed from the same element of each operand.
//
// Unary functions take an array of the listed element types. The result has the shape of the operand and, unless stated
// otherwise, its element type. Binary functions take operands of one element type. If the ranks are equal or one
// operand is a scalar, dimensions of size 1 expand. Otherwise `broadcast_dimensions` names, strictly increasing, the
// dimension of the larger operand for each dimension of the smaller one, and afterwards dimensions of size 1 expand.
// Broadcasts become separate instructions. Errors: [broadcast_e5] ranks differ and broadcast_dimensions is empty;
// [broadcast_e6] its number of entries or their order; [broadcast_e7] a mapped size differs; [broadcast_e8] sizes of
// equal ranks differ; and the rules of the operation.
#ifndef BACKPLANE_CORE_IR_OPS_ELEMENTWISE_H_
#define BACKPLANE_CORE_IR_OPS_ELEMENTWISE_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// The required accuracy of an approximated function. In the mode kTolerance at least one of the three bounds is set, in
// the other modes none. Errors: [result_accuracy_c1] a bound is negative or not finite, [result_accuracy_c2] bounds
// without kTolerance, [result_accuracy_c3] kTolerance without bounds.
using Accuracy = std::optional<ResultAccuracy>;

// One function for each line of core/ops/op_table.def. The last entry of the line is the name of the function; its
// operand types are those that the function accepts:
//   OP_UNARY       Result Abs(Builder& b, Value operand);
//   OP_FUNCTION    Result Tanh(Builder& b, Value operand, Accuracy result_accuracy = {});
//   OP_BINARY      Result Add(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
// Abs of a complex number is real. IsFinite returns pred. Real and Imag return the parts of a complex number; of a
// float they return the float and 0. Complex makes c64 from two f32 and c128 from two f64. For pred, Add is or, Mul is
// and, Not is logical. For integers, Not inverts the bits and Div truncates. The result of Rem has the sign of lhs.
#define OP_UNARY(e, text, types, stablehlo, since, builder) Result builder(Builder& b, Value operand);
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) \
  Result builder(Builder& b, Value operand, Accuracy result_accuracy = {});
#define OP_BINARY(e, text, types, traits, stablehlo, since, builder) \
  Result builder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
#include "core/ops/op_table.def"

Result Round(Builder& b, Value operand);  // the same as RoundNearestAfz

// Comparisons return pred. Floats compare by IEEE 754. The functions named TotalOrder, which take floats only, use the
// order -NaN < -Inf < finite < -0 < +0 < finite < +Inf < +NaN. `type` must fit the element type ([compare_c3]).
Result Compare(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions, ComparisonDirection direction,
               std::optional<ComparisonType> type = std::nullopt);
Result Eq(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Ne(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Ge(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Gt(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Le(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Lt(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result EqTotalOrder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result NeTotalOrder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result GeTotalOrder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result GtTotalOrder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result LeTotalOrder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result LtTotalOrder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});

// Returns min(max(operand, min), max). min and max are scalars or have the shape of the operand.
Result Clamp(Builder& b, Value min, Value operand, Value max);
// Selects elements of on_true where pred is true, else of on_false; both have one shape. pred is a scalar or has their
// dimensions. With a scalar pred they may be tuples: one select is added for each array in them ([select_i2] if an
// element is not an array).
Result Select(Builder& b, Value pred, Value on_true, Value on_false);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_ELEMENTWISE_H_
