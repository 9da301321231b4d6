// Vectorizes calls of a scalar computation over a batch: the reducer, mapped computation or comparator that handles one
// element becomes operations on arrays with a leading batch dimension.
#ifndef BACKPLANE_CORE_PASSES_BATCH_BODY_H_
#define BACKPLANE_CORE_PASSES_BATCH_BODY_H_

#include <vector>

#include "core/ir/builder.h"

namespace backplane {

// Calls `body`, whose parameters are scalars, `n` times. `arguments` holds one array [n] for each parameter. Returns
// one array [n] for each leaf of the result. The calls run with the types of the body, in any order.
//
// Operations with batch dimensions (elementwise, data movement, reductions, sort, dot, gather, ...) run once for the
// whole batch. The others run in a loop over the batch: operations without a batched form, nested loops, and operations
// with side effects. A conditional computes all branches and selects, unless a branch contains a loop. If an
// intermediate array would become too large, the calls run in blocks. A batch of one is a plain call.
//
// `active` is a pred[n], or null if all calls are active. The results of inactive calls are unspecified. The mask
// matters only for a body with a loop, because the loop may not terminate for meaningless arguments.
absl::StatusOr<std::vector<Value>> CallForEach(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n,
                                               Value active = nullptr);

// Reduces `inputs` over `dims` in row-major order by a loop with one iteration per reduced position. Each iteration
// combines whole arrays. `initial_values` holds one array of the remaining dimensions per input. The results have the
// types of the body's first parameters.
absl::StatusOr<std::vector<Value>> ReduceSequentially(Builder& b, Computation* body, const std::vector<Value>& inputs,
                                                      const std::vector<Value>& initial_values,
                                                      absl::Span<const int64_t> dims);

// Returns the index in each dimension of the element at `linear_index` (s32[]) of a row-major array of these sizes.
absl::StatusOr<std::vector<Value>> DelinearizeIndex(Builder& b, Value linear_index, const DimVector& sizes);

// Converts `x` if its type is not `t`.
absl::StatusOr<Value> AsType(Builder& b, Value x, PrimitiveType t);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_BATCH_BODY_H_
