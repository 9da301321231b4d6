// Builders of slices, gathers and scatters, and of operations on dynamic sizes.
#ifndef BACKPLANE_CORE_IR_OPS_INDEXING_H_
#define BACKPLANE_CORE_IR_OPS_INDEXING_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Returns every stride-th element from start up to limit (exclusive) in each dimension. An empty `strides` means 1
// everywhere. Errors: [slice_c2] numbers of entries, [slice_c3] 0 <= start <= limit <= size, [slice_c4] stride > 0.
Result Slice(Builder& b, Value operand, Dims start_indices, Dims limit_indices, Dims strides = {});
// Returns the slice of the given sizes at start_indices: integer scalars of one type, one per dimension. The start
// indices are clamped so that the slice lies inside the operand. Errors: [dynamic_slice_c2] numbers of entries,
// [dynamic_slice_c3] types, [dynamic_slice_c4] sizes.
Result DynamicSlice(Builder& b, Value operand, const std::vector<Value>& start_indices, Dims slice_sizes);
// Returns the operand with the slice at start_indices replaced by `update`. The start indices are clamped as in
// DynamicSlice.
Result DynamicUpdateSlice(Builder& b, Value operand, Value update, const std::vector<Value>& start_indices);
// Gathers the slices of the operand at the index vectors in start_indices, which are clamped so that each slice lies
// inside the operand. In the result, dimension_numbers.offset_dims are the dimensions of the slices; the others are the
// dimensions of start_indices. Errors: [gather_c1] to [gather_c21].
Result Gather(Builder& b, Value operand, Value start_indices, GatherDimensions dimension_numbers, Dims slice_sizes,
              bool indices_are_sorted = false);
// Returns the operands with the updates combined into the windows at scatter_indices. update_computation takes the N
// current values, then the N updates. A window that is not inside the operand as a whole is skipped, as by XLA; the
// StableHLO specification skips only its elements outside. JAX's gradient of a gather that fills windows outside of the
// operand relies on it. Errors: [scatter_c1] to [scatter_c23].
Result Scatter(Builder& b, std::vector<Value> operands, Value scatter_indices, const std::vector<Value>& updates,
               Computation* update_computation, ScatterDimensions dimension_numbers, bool indices_are_sorted = false,
               bool unique_indices = false);

// Returns the dynamic size of a dimension, as s32[].
Result GetDimensionSize(Builder& b, Value operand, int64_t dimension);
// Sets the dynamic size of `dimension` to `val`, an s32[]. The bound stays.
Result SetDimensionSize(Builder& b, Value operand, Value val, int64_t dimension);
// Reshapes to dynamic sizes: one integer scalar per dimension, at most the bound. A dimension that is not marked as
// dynamic has the size of its bound. Errors: [dynamic_reshape_c2] a result without dynamic dimensions has another
// number of elements, [dynamic_reshape_c4] numbers of entries.
Result DynamicReshape(Builder& b, Value operand, const std::vector<Value>& dim_sizes, Dims new_size_bounds,
                      const std::vector<bool>& dims_are_dynamic);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_INDEXING_H_
