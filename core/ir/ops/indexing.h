// Parts of arrays at places known beforehand or at run time, and sizes known at run time.
#ifndef BACKPLANE_CORE_IR_OPS_INDEXING_H_
#define BACKPLANE_CORE_IR_OPS_INDEXING_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// From start up to limit (not included) in each dimension, every stride-th; no strides means 1 everywhere. Errors:
// [slice_c2] numbers of entries, [slice_c3] 0 <= start <= limit <= size, [slice_c4] stride > 0.
Result Slice(Builder& b, Value operand, Dims start_indices, Dims limit_indices, Dims strides = {});
// The box of the given sizes at start_indices, one integer scalar of one type for each dimension, clamped so that the
// box lies inside. Errors: [dynamic_slice_c2] numbers of entries, [dynamic_slice_c3] types, [dynamic_slice_c4] sizes.
Result DynamicSlice(Builder& b, Value operand, const std::vector<Value>& start_indices, Dims slice_sizes);
// The operand with the box at start_indices, clamped likewise, replaced by update.
Result DynamicUpdateSlice(Builder& b, Value operand, Value update, const std::vector<Value>& start_indices);
// Slices of the operand at the index vectors in start_indices, clamped so that each lies inside. Result dimensions:
// dimension_numbers.offset_dims walk the slices, the others walk start_indices. Errors: [gather_c1] to [gather_c21].
Result Gather(Builder& b, Value operand, Value start_indices, GatherDimensions dimension_numbers, Dims slice_sizes,
              bool indices_are_sorted = false);
// The operands with the windows at scatter_indices combined with the updates: update_computation takes the N present
// values, then the N updates. What lies outside is skipped. Errors: [scatter_c1] to [scatter_c23].
Result Scatter(Builder& b, std::vector<Value> operands, Value scatter_indices, const std::vector<Value>& updates,
               Computation* update_computation, ScatterDimensions dimension_numbers, bool indices_are_sorted = false,
               bool unique_indices = false);

// The size that a dimension has at run time, as s32[].
Result GetDimensionSize(Builder& b, Value operand, int64_t dimension);
// The operand, of which only the first `val` (s32[]) entries of `dimension` count from here on; its bound stays.
Result SetDimensionSize(Builder& b, Value operand, Value val, int64_t dimension);
// A reshape to sizes that come at run time, one integer scalar for each dimension, within bounds; a dimension marked
// not dynamic has its bound as its size. Errors: [dynamic_reshape_c2] counts of a result without dynamic dimensions
// differ, [dynamic_reshape_c4] numbers of entries.
Result DynamicReshape(Builder& b, Value operand, const std::vector<Value>& dim_sizes, Dims new_size_bounds,
                      const std::vector<bool>& dims_are_dynamic);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_INDEXING_H_
