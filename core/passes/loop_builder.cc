#include "core/passes/loop_builder.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<std::vector<Value>> MakeLoop(
    Builder& b, const std::string& name, Value limit, std::vector<Value> constants, std::vector<Value> state,
    const std::function<absl::StatusOr<Value>(LoopIteration& iteration)>& body) {
  ASSIGN_OR_RETURN(Value zero, IndexConstant(b, 0));
  std::vector<Value> all = {zero, limit};
  all.insert(all.end(), constants.begin(), constants.end());
  all.insert(all.end(), state.begin(), state.end());
  std::vector<Shape> shapes;
  for (Value v : all) shapes.push_back(v->shape());
  const Shape tuple = Shape::Tuple(shapes);

  Builder condition(b.module(), absl::StrCat(name, "_condition"));
  ASSIGN_OR_RETURN(Value c, condition.Parameter(0, tuple));
  ASSIGN_OR_RETURN(Value at, condition.GetTupleElement(c, 0));
  ASSIGN_OR_RETURN(Value end, condition.GetTupleElement(c, 1));
  ASSIGN_OR_RETURN(Value more, condition.Compare(at, end, ComparisonDirection::kLt));
  ASSIGN_OR_RETURN(Computation * condition_done, condition.Build(more));

  Builder inner(b.module(), absl::StrCat(name, "_body"));
  ASSIGN_OR_RETURN(Value p, inner.Parameter(0, tuple));
  std::vector<Value> parts;
  for (size_t k = 0; k < all.size(); ++k) {
    ASSIGN_OR_RETURN(Value e, inner.GetTupleElement(p, static_cast<int64_t>(k)));
    parts.push_back(e);
  }
  const size_t first_state = 2 + constants.size();
  LoopIteration iteration{inner,
                          parts[0],
                          {parts.begin() + 2, parts.begin() + static_cast<int64_t>(first_state)},
                          {parts.begin() + static_cast<int64_t>(first_state), parts.end()}};
  ASSIGN_OR_RETURN(parts[0], body(iteration));
  std::copy(iteration.state.begin(), iteration.state.end(), parts.begin() + static_cast<int64_t>(first_state));
  ASSIGN_OR_RETURN(Value next, inner.Tuple(parts));
  ASSIGN_OR_RETURN(Computation * body_done, inner.Build(next));

  ASSIGN_OR_RETURN(Value init, b.Tuple(all));
  ASSIGN_OR_RETURN(Value loop, b.While(condition_done, body_done, init));
  std::vector<Value> results;
  for (size_t k = first_state; k < all.size(); ++k) {
    ASSIGN_OR_RETURN(Value e, b.GetTupleElement(loop, static_cast<int64_t>(k)));
    results.push_back(e);
  }
  return results;
}

absl::StatusOr<Value> IndexConstant(Builder& b, int64_t n) {
  if (n < std::numeric_limits<int32_t>::min() || n > std::numeric_limits<int32_t>::max())
    return absl::UnimplementedError(absl::StrCat("the index ", n, " does not fit in 32 bits"));
  return b.Constant(Literal::ScalarInt(PrimitiveType::kS32, n));
}

absl::StatusOr<Value> SliceAt(Builder& b, Value x, std::vector<Value> starts, absl::Span<const int64_t> sizes) {
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  Attributes attrs;
  attrs.Set(AttrId::kDynamicSliceSizes, Ints(sizes.begin(), sizes.end()));
  return b.Op(Opcode::kDynamicSlice, std::move(operands), std::move(attrs));
}

absl::StatusOr<Value> UpdateAt(Builder& b, Value x, Value update, std::vector<Value> starts) {
  std::vector<Value> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return b.Op(Opcode::kDynamicUpdateSlice, std::move(operands));
}

absl::StatusOr<Value> Fill(Builder& b, PrimitiveType type, double value, absl::Span<const int64_t> dims) {
  // Literal(shape) is zero-filled. Literal::Scalar would refuse 0 for a type that has no zero.
  ASSIGN_OR_RETURN(Value scalar, b.Constant(value == 0 ? Literal(Shape::Scalar(type)) : Literal::Scalar(type, value)));
  if (dims.empty()) return scalar;
  return b.BroadcastInDim(scalar, dims, {});
}

}  // namespace backplane
