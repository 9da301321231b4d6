#include "core/ir/ops/internal.h"

#include <algorithm>

#include "absl/strings/str_replace.h"

namespace backplane::hlo::internal {

std::string RuleLabel(Opcode opcode, absl::string_view rule) {
  return absl::StrCat(absl::StrReplaceAll(OpName(opcode), {{"-", "_"}}), "_", rule);
}

absl::Status CheckValues(const Builder& b, Opcode opcode, absl::Span<const Value> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == nullptr || values[i]->parent() != b.computation()) {
      return Fail(opcode, "operand", "operand ", i, " is not of computation ", b.computation()->name());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArrays(const Builder& b, Opcode opcode, absl::Span<const Value> values) {
  RETURN_IF_ERROR(CheckValues(b, opcode, values));
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]->shape().IsArray()) {
      return Fail(opcode, RuleLabel(opcode, "operand"), "operand ", i, " must be an array, found ",
                  values[i]->shape().ToString());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> Inferred(Opcode opcode, const std::vector<Shape>& operands, const Attributes& attrs) {
  std::vector<const Shape*> pointers;
  for (const Shape& s : operands) pointers.push_back(&s);
  OpContext op;
  op.opcode = opcode;
  op.operands = pointers;
  op.attrs = &attrs;
  return InferShape(op);
}

absl::StatusOr<int64_t> Product(Opcode opcode, absl::string_view label, int64_t a, int64_t b) {
  const __int128 product = static_cast<__int128>(a) * b;
  if (product < 0 || product > (int64_t{1} << 62)) {
    return Fail(opcode, label, "the size ", a, " times ", b, " is negative or too large");
  }
  return static_cast<int64_t>(product);
}

absl::StatusOr<std::pair<int64_t, int64_t>> ComputePadding(Opcode opcode, Padding padding, int64_t size, int64_t window,
                                                           int64_t stride) {
  if (padding == Padding::kValid || stride < 1 || window < 1) return std::pair<int64_t, int64_t>(0, 0);
  const int64_t out = size / stride + (size % stride != 0);
  const __int128 total = out == 0 ? 0 : static_cast<__int128>(out - 1) * stride + window - size;
  if (total > (int64_t{1} << 62)) return Fail(opcode, "padding_size", "the padding would be too large");
  const int64_t all = std::max<int64_t>(static_cast<int64_t>(total), 0);
  return std::pair<int64_t, int64_t>(all / 2, all - all / 2);
}

absl::StatusOr<std::vector<Value>> Elements(Builder& b, Opcode opcode, Value value) {
  RETURN_IF_ERROR(CheckValues(b, opcode, {value}));
  if (!value->shape().IsTuple()) return std::vector<Value>{value};
  std::vector<Value> elements;
  const int64_t n = value->shape().tuple_size();
  for (int64_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(Value element, b.GetTupleElement(value, i));
    elements.push_back(element);
  }
  return elements;
}

}  // namespace backplane::hlo::internal
