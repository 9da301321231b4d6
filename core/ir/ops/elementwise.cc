#include "core/ir/ops/elementwise.h"

#include "core/ir/ops/broadcasting.h"
#include "core/ir/ops/internal.h"
#include "core/ops/result_accuracy.h"

namespace backplane::hlo {
namespace {

constexpr int kMaxNesting = 100;  // of tuples in a select

Result Accurate(Builder& b, Opcode opcode, Value operand, const Accuracy& accuracy) {
  if (accuracy) RETURN_IF_ERROR(CheckResultAccuracy(opcode, OpName(opcode), *accuracy));
  ASSIGN_OR_RETURN(Value result, b.Op(opcode, {operand}));
  result->set_result_accuracy(accuracy);
  return result;
}

Result Binary(Builder& b, Opcode opcode, Value lhs, Value rhs, Dims dims) {
  RETURN_IF_ERROR(BroadcastOperands(b, opcode, &lhs, &rhs, dims));
  return b.Op(opcode, {lhs, rhs});
}

Result SelectLeaves(Builder& b, Value pred, Value on_true, Value on_false, int depth) {
  if (!on_true->shape().IsTuple()) return b.Op(Opcode::kSelect, {pred, on_true, on_false});
  if (depth > kMaxNesting) return internal::Fail(Opcode::kSelect, "select_nesting", "tuples nested too deep");
  std::vector<Value> leaves;
  const int64_t n = on_true->shape().tuple_size();
  for (int64_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(Value x, b.GetTupleElement(on_true, i));
    ASSIGN_OR_RETURN(Value y, b.GetTupleElement(on_false, i));
    ASSIGN_OR_RETURN(Value leaf, SelectLeaves(b, pred, x, y, depth + 1));
    leaves.push_back(leaf);
  }
  return b.Tuple(std::move(leaves));
}

}  // namespace

Result Abs(Builder& b, Value x) { return b.Op(Opcode::kAbs, {x}); }
Result Cbrt(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kCbrt, x, a); }
Result Ceil(Builder& b, Value x) { return b.Op(Opcode::kCeil, {x}); }
Result Clz(Builder& b, Value x) { return b.Op(Opcode::kClz, {x}); }
Result Cos(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kCos, x, a); }
Result Cosh(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kCosh, x, a); }
Result Erf(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kErf, x, a); }
Result Exp(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kExp, x, a); }
Result Expm1(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kExpm1, x, a); }
Result Floor(Builder& b, Value x) { return b.Op(Opcode::kFloor, {x}); }
Result Imag(Builder& b, Value x) { return b.Op(Opcode::kImag, {x}); }
Result IsFinite(Builder& b, Value x) { return b.Op(Opcode::kIsFinite, {x}); }
Result Log(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kLog, x, a); }
Result Log1p(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kLog1p, x, a); }
Result Logistic(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kLogistic, x, a); }
Result Neg(Builder& b, Value x) { return b.Op(Opcode::kNegate, {x}); }
Result Not(Builder& b, Value x) { return b.Op(Opcode::kNot, {x}); }
Result PopulationCount(Builder& b, Value x) { return b.Op(Opcode::kPopcnt, {x}); }
Result Real(Builder& b, Value x) { return b.Op(Opcode::kReal, {x}); }
Result Round(Builder& b, Value x) { return b.Op(Opcode::kRoundNearestAfz, {x}); }
Result RoundNearestAfz(Builder& b, Value x) { return b.Op(Opcode::kRoundNearestAfz, {x}); }
Result RoundNearestEven(Builder& b, Value x) { return b.Op(Opcode::kRoundNearestEven, {x}); }
Result Rsqrt(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kRsqrt, x, a); }
Result Sign(Builder& b, Value x) { return b.Op(Opcode::kSign, {x}); }
Result Sin(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kSin, x, a); }
Result Sqrt(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kSqrt, x, a); }
Result Tan(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kTan, x, a); }
Result Tanh(Builder& b, Value x, Accuracy a) { return Accurate(b, Opcode::kTanh, x, a); }

Result Add(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kAdd, x, y, dims); }
Result And(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kAnd, x, y, dims); }
Result Atan2(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kAtan2, x, y, dims); }
Result Complex(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kComplex, x, y, dims); }
Result Div(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kDivide, x, y, dims); }
Result Max(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kMaximum, x, y, dims); }
Result Min(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kMinimum, x, y, dims); }
Result Mul(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kMultiply, x, y, dims); }
Result Or(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kOr, x, y, dims); }
Result Pow(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kPower, x, y, dims); }
Result Rem(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kRemainder, x, y, dims); }
Result ShiftLeft(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kShiftLeft, x, y, dims); }
Result ShiftRightArithmetic(Builder& b, Value x, Value y, Dims dims) {
  return Binary(b, Opcode::kShiftRightArithmetic, x, y, dims);
}
Result ShiftRightLogical(Builder& b, Value x, Value y, Dims dims) {
  return Binary(b, Opcode::kShiftRightLogical, x, y, dims);
}
Result Sub(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kSubtract, x, y, dims); }
Result Xor(Builder& b, Value x, Value y, Dims dims) { return Binary(b, Opcode::kXor, x, y, dims); }

Result Compare(Builder& b, Value lhs, Value rhs, Dims dims, ComparisonDirection direction,
               std::optional<ComparisonType> type) {
  RETURN_IF_ERROR(BroadcastOperands(b, Opcode::kCompare, &lhs, &rhs, dims));
  return b.Compare(lhs, rhs, direction, type);
}

#define BACKPLANE_COMPARISON(direction)                                                            \
  Result direction(Builder& b, Value x, Value y, Dims dims) {                                      \
    return Compare(b, x, y, dims, ComparisonDirection::k##direction);                              \
  }                                                                                                \
  Result direction##TotalOrder(Builder& b, Value x, Value y, Dims dims) {                          \
    return Compare(b, x, y, dims, ComparisonDirection::k##direction, ComparisonType::kTotalOrder); \
  }
BACKPLANE_COMPARISON(Eq)
BACKPLANE_COMPARISON(Ne)
BACKPLANE_COMPARISON(Ge)
BACKPLANE_COMPARISON(Gt)
BACKPLANE_COMPARISON(Le)
BACKPLANE_COMPARISON(Lt)
#undef BACKPLANE_COMPARISON

Result Clamp(Builder& b, Value min, Value operand, Value max) { return b.Op(Opcode::kClamp, {min, operand, max}); }

Result Select(Builder& b, Value pred, Value on_true, Value on_false) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kSelect, {pred, on_true, on_false}));
  if (!on_true->shape().IsTuple()) return b.Op(Opcode::kSelect, {pred, on_true, on_false});
  // The rules of the whole before anything is made of its parts.
  RETURN_IF_ERROR(
      internal::Inferred(Opcode::kSelect, {pred->shape(), on_true->shape(), on_false->shape()}, {}).status());
  return SelectLeaves(b, pred, on_true, on_false, 0);
}

}  // namespace backplane::hlo
