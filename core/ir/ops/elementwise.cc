#include "core/ir/ops/elementwise.h"

#include "core/ir/ops/broadcasting.h"
#include "core/ir/ops/internal.h"
#include "core/ops/result_accuracy.h"

namespace backplane::hlo {
namespace {

constexpr int kMaxNesting = 100;  // of tuples in a select

Result Approximated(Builder& b, Opcode opcode, Value operand, const Accuracy& accuracy) {
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

#define OP_UNARY(e, text, types, stablehlo, since, builder) \
  Result builder(Builder& b, Value operand) { return b.Op(Opcode::e, {operand}); }
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) \
  Result builder(Builder& b, Value operand, Accuracy a) { return Approximated(b, Opcode::e, operand, a); }
#define OP_BINARY(e, text, types, traits, stablehlo, since, builder) \
  Result builder(Builder& b, Value lhs, Value rhs, Dims dims) { return Binary(b, Opcode::e, lhs, rhs, dims); }
#include "core/ops/op_table.def"

Result Round(Builder& b, Value x) { return b.Op(Opcode::kRoundNearestAfz, {x}); }

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
