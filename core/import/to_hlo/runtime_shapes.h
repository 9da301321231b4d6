// Operations whose amounts are values of the running program, where the shapes are known all the same: an element's
// place is computed and gathered.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_

#include "absl/status/statusor.h"
#include "core/ir/builder.h"

namespace backplane::to_hlo {

// x[start + i * stride] for every index i of the dims of the result. `start` and `stride` are vectors of integers, one
// entry for each dimension of x. Positions outside of x give its nearest element.
absl::StatusOr<Value> SliceAtRuntime(Builder& b, Value x, Value start, Value stride, absl::Span<const int64_t> dims);

// The first `dims` elements of x padded by `low` elements before and `interior` ones between elements, and by as many
// as it takes behind; `value` is the scalar for them. Negative `low` cuts. `low` and `interior` are vectors of
// integers.
absl::StatusOr<Value> PadAtRuntime(Builder& b, Value x, Value value, Value low, Value interior,
                                   absl::Span<const int64_t> dims);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_
