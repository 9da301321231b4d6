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

// How exact a result has to be, for the fourteen functions that take it. kTolerance: at least one of the three is set;
// otherwise none. Errors: [result_accuracy_c1] a negative or not finite bound, [result_accuracy_c2] bounds without
// kTolerance, [result_accuracy_c3] kTolerance without bounds.
using Accuracy = std::optional<ResultAccuracy>;

Result Abs(Builder& b, Value operand);                                  // signed integers, floats; complex: real result
Result Cbrt(Builder& b, Value operand, Accuracy result_accuracy = {});  // floats, complex
Result Ceil(Builder& b, Value operand);                                 // floats
Result Clz(Builder& b, Value operand);                                  // integers: leading zero bits
Result Cos(Builder& b, Value operand, Accuracy result_accuracy = {});   // floats, complex
Result Cosh(Builder& b, Value operand, Accuracy result_accuracy = {});  // floats, complex
Result Erf(Builder& b, Value operand, Accuracy result_accuracy = {});   // floats
Result Exp(Builder& b, Value operand, Accuracy result_accuracy = {});   // floats, complex
Result Expm1(Builder& b, Value operand, Accuracy result_accuracy = {});     // floats, complex
Result Floor(Builder& b, Value operand);                                    // floats
Result Imag(Builder& b, Value operand);                                     // complex: its part; floats: 0
Result IsFinite(Builder& b, Value operand);                                 // floats; result pred
Result Log(Builder& b, Value operand, Accuracy result_accuracy = {});       // floats, complex
Result Log1p(Builder& b, Value operand, Accuracy result_accuracy = {});     // floats, complex
Result Logistic(Builder& b, Value operand, Accuracy result_accuracy = {});  // floats, complex
Result Neg(Builder& b, Value operand);                                      // numbers
Result Not(Builder& b, Value operand);                                      // pred: logical; integers: bits
Result PopulationCount(Builder& b, Value operand);                          // integers
Result Real(Builder& b, Value operand);                                     // complex: its part; floats: themselves
Result Round(Builder& b, Value operand);                                    // as RoundNearestAfz
Result RoundNearestAfz(Builder& b, Value operand);                          // floats, ties away from zero
Result RoundNearestEven(Builder& b, Value operand);                         // floats, ties to even
Result Rsqrt(Builder& b, Value operand, Accuracy result_accuracy = {});     // floats, complex
Result Sign(Builder& b, Value operand);                                     // numbers
Result Sin(Builder& b, Value operand, Accuracy result_accuracy = {});       // floats, complex
Result Sqrt(Builder& b, Value operand, Accuracy result_accuracy = {});      // floats, complex
Result Tan(Builder& b, Value operand, Accuracy result_accuracy = {});       // floats, complex
Result Tanh(Builder& b, Value operand, Accuracy result_accuracy = {});      // floats, complex

Result Add(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});      // numbers; pred: or
Result And(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});      // pred, integers
Result Atan2(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});    // floats, complex
Result Complex(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});  // f32, f64 to c64, c128
Result Div(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});      // numbers; integers truncate
Result Max(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Min(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});
Result Mul(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});        // numbers; pred: and
Result Or(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});         // pred, integers
Result Pow(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});        // numbers
Result Rem(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});        // integers, floats; sign of lhs
Result ShiftLeft(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});  // integers
Result ShiftRightArithmetic(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});  // integers
Result ShiftRightLogical(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});     // integers
Result Sub(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});                   // numbers
Result Xor(Builder& b, Value lhs, Value rhs, Dims broadcast_dimensions = {});                   // pred, integers

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
