// Helpers that the named builder functions share. Internal to core/ir/ops.
#ifndef BACKPLANE_CORE_IR_OPS_INTERNAL_H_
#define BACKPLANE_CORE_IR_OPS_INTERNAL_H_

#include "absl/strings/str_cat.h"
#include "core/ir/ops/common.h"
#include "core/types/status_macros.h"

namespace backplane::hlo::internal {

template <typename... Args>
absl::Status Fail(Opcode opcode, absl::string_view label, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(OpName(opcode), ": ", args..., " [", label, "]"));
}

// Returns the label of a rule: "dot_c6" for kDot and "c6".
std::string RuleLabel(Opcode opcode, absl::string_view rule);

// Returns InvalidArgument [operand] if a value is null or belongs to another computation than the builder's. Functions
// call it before they read shapes.
absl::Status CheckValues(const Builder& b, Opcode opcode, absl::Span<const Value> values);
// Like CheckValues, and also requires that every value is an array.
absl::Status CheckArrays(const Builder& b, Opcode opcode, absl::Span<const Value> values);

// Infers the result shape of an operation without a declared shape.
absl::StatusOr<Shape> Inferred(Opcode opcode, const std::vector<Shape>& operands, const Attributes& attrs);

// Returns a * b, or InvalidArgument with the label if it is negative or exceeds 2^62.
absl::StatusOr<int64_t> Product(Opcode opcode, absl::string_view label, int64_t a, int64_t b);

// Returns the low and high padding of one dimension.
absl::StatusOr<std::pair<int64_t, int64_t>> ComputePadding(Opcode opcode, Padding padding, int64_t size, int64_t window,
                                                           int64_t stride);

// Returns the elements of a tuple, for which it adds get-tuple-element instructions, or the value itself if it is no
// tuple.
absl::StatusOr<std::vector<Value>> Elements(Builder& b, Opcode opcode, Value value);

inline Ints AsInts(Dims s) { return Ints(s.begin(), s.end()); }

}  // namespace backplane::hlo::internal

#endif  // BACKPLANE_CORE_IR_OPS_INTERNAL_H_
