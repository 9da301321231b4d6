// A computation of single elements, applied to many of them at once: what a reduction, a map or a comparator computes
// for one element becomes operations on arrays that have the elements as a further, first dimension.
#ifndef BACKPLANE_CORE_PASSES_BATCH_BODY_H_
#define BACKPLANE_CORE_PASSES_BATCH_BODY_H_

#include <vector>

#include "core/ir/builder.h"

namespace backplane {

// For each parameter of `body` (a scalar) the arguments of `n` calls, as an array [n]; gives the results of the calls,
// an array [n] for each leaf of the body's result. The calls are of the body's own types and may come in any order.
//
// Operations that know batches (elementwise, movement, reductions, sort, dot, gather, ...) run once over all calls.
// What has another form for each call runs in a loop over them: operations without batches, loops inside of loops,
// whatever has a side effect. A branch computes both sides where neither holds a loop. Where the arrays would grow too
// large the calls are made in blocks. One call alone is a call.
//
// `active`: pred[n], null for all: results of other calls are arbitrary. For a body that holds no loop it makes no
// difference; a loop may have no end for arguments that nobody meant.
absl::StatusOr<std::vector<Value>> CallForEach(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n,
                                               Value active = nullptr);

// A reduction over `dims` of the inputs in row-major order, one turn of a loop for each reduced position: the body
// combines whole arrays. `starts` has the values to begin with, one array of the kept dims for each input. Results in
// the types of the body's first parameters.
absl::StatusOr<std::vector<Value>> ReduceInTurns(Builder& b, Computation* body, const std::vector<Value>& inputs,
                                                 const std::vector<Value>& starts, absl::Span<const int64_t> dims);

// The element at `place` (s32[]) of a row-major count over `sizes`: its number in each dimension.
absl::StatusOr<std::vector<Value>> PlacesOf(Builder& b, Value place, const DimVector& sizes);

// Converted where the type is another one.
absl::StatusOr<Value> AsType(Builder& b, Value x, PrimitiveType t);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_BATCH_BODY_H_
