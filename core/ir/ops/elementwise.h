// Elementwise operations: one result element from the same element of each operand.
//
// Unary: any array of the element types named; the result has the operand's shape and, unless stated, its type.
// Binary: both operands have one element type. With equal ranks, or where one is a scalar, sizes of 1 expand; otherwise
// `broadcast_dimensions` says, strictly increasing, which dimension of the larger operand each dimension of the smaller
// one corresponds to, and after that sizes of 1 expand. The instructions made have equal shapes: the broadcasts are
// instructions of their own. Errors: [broadcast_e5] ranks differ and no broadcast_dimensions; [broadcast_e6] their
// number or order; [broadcast_e7] a mapped size differs; [broadcast_e8] sizes of equal ranks differ; the operation's
// rules.
#ifndef BACKPLANE_CORE_IR_OPS_ELEMENTWISE_H_
#define BACKPLANE_CORE_IR_OPS_ELEMENTWISE_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// How exact the result of an approximated function has to be. kTolerance: at least one of the three bounds is set;
// otherwise none. Errors: [result_accuracy_c1] a bound that is negative or not finite, [result_accuracy_c2] bounds
// without kTolerance, [result_accuracy_c3] kTolerance without bounds.
using Accuracy = std::optional<ResultAccuracy>;

// One function for each line of core/ops/op_table.def. The line's last entry is the function's name, its operand types
// are those that the function takes:
//   OP_UNARY       Result Abs(Builder& b, Value operand);
//   OP_FUNCTION    Result Tanh(Builder& b, Value operand, Accuracy result_accuracy = {});
//   OP_BINARY      Result Add(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
// Abs of a complex number is real; IsFinite gives pred; Real and Imag give the type of a complex number's parts, and of
// a float itself and 0; Complex takes f32 or f64 to c64 or c128. Of pred Add is or, Mul is and, Not is logical; of
// integers Not inverts the bits and Div truncates. Rem has the sign of lhs.
#define OP_UNARY(e, text, types, stablehlo, since, builder) Result builder(Builder& b, Value operand);
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) \
  Result builder(Builder& b, Value operand, Accuracy result_accuracy = {});
#define OP_BINARY(e, text, types, traits, stablehlo, since, builder) \
  Result builder(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
#include "core/ops/op_table.def"

Result Round(Builder& b, Value operand);  // as RoundNearestAfz

// Comparisons: result pred. Floats compare by IEEE 754, or, in the forms named TotalOrder (floats alone), by
// -NaN < -Inf < finite < -0 < +0 < finite < +Inf < +NaN. `type` must fit the element type ([compare_c3]).
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

// min(max(operand, min), max). min and max have operand's shape or are scalars.
Result Clamp(Builder& b, Value min, Value operand, Value max);
// on_true where pred, else on_false, which have one shape. pred has their dimensions or is a scalar. With a scalar pred
// tuples are chosen whole: one select for each array in them ([select_i2]: a leaf that is no array).
Result Select(Builder& b, Value pred, Value on_true, Value on_false);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_ELEMENTWISE_H_
