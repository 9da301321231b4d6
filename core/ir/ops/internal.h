// Helpers of the named builder functions; not for users.
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

// "dot_c6" for opcode kDot and rule "c6".
std::string RuleLabel(Opcode opcode, absl::string_view rule);

// Every value is there and of the builder's computation, so that its shape may be looked at.
absl::Status CheckValues(const Builder& b, Opcode opcode, absl::Span<const Value> values);
// And is an array.
absl::Status CheckArrays(const Builder& b, Opcode opcode, absl::Span<const Value> values);

// Shape that an operation on values of these shapes has when none is declared.
absl::StatusOr<Shape> Inferred(Opcode opcode, const std::vector<Shape>& operands, const Attributes& attrs);

// a * b, or an error of that label where it exceeds 2^62.
absl::StatusOr<int64_t> Product(Opcode opcode, absl::string_view label, int64_t a, int64_t b);

// The padding that kSame or kValid means for one dimension.
absl::StatusOr<std::pair<int64_t, int64_t>> PaddingOf(Opcode opcode, Padding padding, int64_t size, int64_t window,
                                                      int64_t stride);

// The elements of a tuple as values of their own; anything else is its own only element.
absl::StatusOr<std::vector<Value>> Elements(Builder& b, Opcode opcode, Value value);

inline Ints AsInts(Dims s) { return Ints(s.begin(), s.end()); }

}  // namespace backplane::hlo::internal

#endif  // BACKPLANE_CORE_IR_OPS_INTERNAL_H_
