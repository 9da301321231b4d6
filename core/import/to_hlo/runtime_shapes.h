// Slices and pads with static result shapes whose amounts are run-time values. They compute the position of each
// element and gather the elements.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_

#include "absl/status/statusor.h"
#include "core/ir/builder.h"

namespace backplane::to_hlo {

// Returns x[start + i * stride] for every index i of an array of dimensions `dims`. `start` and `stride` are vectors of
// integers with one entry per dimension of x. Positions outside of x give its nearest element.
absl::StatusOr<Value> SliceAtRuntime(Builder& b, Value x, Value start, Value stride, absl::Span<const int64_t> dims);

// Pads x with the scalar `value`, with `low` elements before it, `interior` ones between its elements, and as many
// after it as a result of dimensions `dims` needs. Negative `low` removes elements. `low` and `interior` are vectors of
// integers.
absl::StatusOr<Value> PadAtRuntime(Builder& b, Value x, Value value, Value low, Value interior,
                                   absl::Span<const int64_t> dims);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_
