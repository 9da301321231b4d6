// Reductions, scans, ordering, and reductions over windows.
//
// A combining computation for N arrays takes N accumulated values, then N new ones, all scalars, and returns a value
// (N = 1) or a tuple of N. It has to be associative up to rounding and init_values its identities: in which order and
// how often they are applied is not fixed. N results are one array for N = 1, else a tuple.
#ifndef BACKPLANE_CORE_IR_OPS_REDUCTION_H_
#define BACKPLANE_CORE_IR_OPS_REDUCTION_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Errors: [reduce_c1] operands differ in dimensions, [reduce_c2] an init value is no scalar of the operand's type,
// [reduce_c3] their numbers, [reduce_c4] and [reduce_c5] dimensions out of range or repeated, [reduce_c6] signature.
Result Reduce(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values, Computation* computation,
              Dims dimensions_to_reduce);
// to_apply takes one slice of each input (without the scan dimension), then the carries, and returns outputs of one
// step, then the new carries. Result: the outputs with the scan dimension, then the last carries, as a tuple. At least
// one input. is_associative: unset when not known. Errors: [scan_c1] to [scan_c5].
Result Scan(Builder& b, std::vector<Value> inputs, const std::vector<Value>& inits, Computation* to_apply,
            int64_t scan_dimension, bool is_reverse = false, std::optional<bool> is_associative = std::nullopt);
// Orders the lines along `dimension` (negative: from the end, -1 the last) of all operands together. comparator takes
// for each operand its values at two places and tells whether the first comes first. Errors: [sort_c1] no operand,
// [sort_c3] operands differ in dimensions, [sort_c4] dimension, [sort_c5] signature.
Result Sort(Builder& b, std::vector<Value> operands, Computation* comparator, int64_t dimension = -1,
            bool is_stable = false);
// The k largest (or smallest) of each line along the last dimension, in order, and their places as s32; of equal ones
// the lower place first. Errors: [topk_c1] rank, [topk_c2] k.
Result TopK(Builder& b, Value operand, int64_t k, bool largest = true);

// Window sizes, strides and dilations have one entry for each dimension; no strides or dilations means 1.
// Errors: [reduce_window_c4] to [reduce_window_c12] numbers and signs of the entries, [reduce_window_c13] signature,
// [reduce_window_c15] a size negative or too large.
Result ReduceWindow(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values,
                    Computation* computation, Dims window_dimensions, Dims window_strides, Dims base_dilations,
                    Dims window_dilations, Padding padding);
Result ReduceWindow(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values,
                    Computation* computation, Dims window_dimensions, Dims window_strides, Dims base_dilations,
                    Dims window_dilations, const PaddingPairs& padding);
// In each window `select` (T, T -> pred: keep the first) picks one element; `scatter` combines source's values into a
// result of the operand's shape, filled with init_value, at the picked places. Errors: [select_and_scatter_c1] to
// [select_and_scatter_c10].
Result SelectAndScatter(Builder& b, Value operand, Computation* select, Dims window_dimensions, Dims window_strides,
                        Padding padding, Value source, Value init_value, Computation* scatter);
Result SelectAndScatter(Builder& b, Value operand, Computation* select, Dims window_dimensions, Dims window_strides,
                        const PaddingPairs& padding, Value source, Value init_value, Computation* scatter);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_REDUCTION_H_
