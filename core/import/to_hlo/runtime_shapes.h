// Slices and pads whose amounts are values at run time, of static shapes: the position of each element is computed, and
// the elements are gathered.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_

#include "absl/status/statusor.h"
#include "core/ir/builder.h"

namespace backplane::to_hlo {

// x[start + i * stride] for every index i of the dims of the result. `start` and `stride` are vectors of integers, one
// entry for each dimension of x. Positions outside of x give its nearest element.
absl::StatusOr<Value> SliceAtRuntime(Builder& b, Value x, Value start, Value stride, absl::Span<const int64_t> dims);

// The first `dims` elements of x, padded with `value` (a scalar): `low` elements before, `interior` ones between
// elements, and as many after as `dims` needs. Negative `low` removes elements. `low` and `interior` are vectors of
// integers.
absl::StatusOr<Value> PadAtRuntime(Builder& b, Value x, Value value, Value low, Value interior,
                                   absl::Span<const int64_t> dims);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_RUNTIME_SHAPES_H_
