// Builders of reductions, scans, sorts, and reductions over windows.
//
// A computation that combines N arrays takes N accumulated values, then N new ones, all scalars. It returns a value (N
// = 1) or a tuple of N. It must be associative up to rounding, and init_values must be its identities, because neither
// the order in which they are applied nor how often is fixed. The result is an array for N = 1, else a tuple of N.
#ifndef BACKPLANE_CORE_IR_OPS_REDUCTION_H_
#define BACKPLANE_CORE_IR_OPS_REDUCTION_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Reduces the operands over dimensions_to_reduce. Errors: [reduce_c1] operands differ in dimensions, [reduce_c2] an
// initial value is not a scalar of the type of its operand, [reduce_c3] number of initial values, [reduce_c4] and
// [reduce_c5] dimensions out of range or repeated, [reduce_c6] signature of the computation.
Result Reduce(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values, Computation* computation,
              Dims dimensions_to_reduce);
// Applies to_apply step by step along scan_dimension. It takes one slice of each input, without that dimension, then
// the carries. It returns the outputs of the step, then the new carries. The result is a tuple of the outputs, with the
// scan dimension, and the last carries. At least one input is required. An unset is_associative means unknown. Errors:
// [scan_c1] to [scan_c5].
Result Scan(Builder& b, std::vector<Value> inputs, const std::vector<Value>& inits, Computation* to_apply,
            int64_t scan_dimension, bool is_reverse = false, std::optional<bool> is_associative = std::nullopt);
// Sorts all operands together along `dimension`; a negative dimension counts from the end, -1 being the last. The
// comparator takes, for each operand, its values at two positions and returns whether the first position comes first.
// Errors: [sort_c1] no operand, [sort_c3] operands differ in dimensions, [sort_c4] dimension, [sort_c5] signature of
// the comparator.
Result Sort(Builder& b, std::vector<Value> operands, Computation* comparator, int64_t dimension = -1,
            bool is_stable = false);
// Returns the k largest (or smallest) elements of each line along the last dimension, in order, and their positions as
// s32. Among equal elements the one with the lower position comes first. Errors: [topk_c1] rank, [topk_c2] k.
Result TopK(Builder& b, Value operand, int64_t k, bool largest = true);

// Reduces windows of the operands. Window sizes, strides and dilations have one entry per dimension; empty strides or
// dilations mean 1. Errors: [reduce_window_c4] to [reduce_window_c12] numbers and signs of the entries,
// [reduce_window_c13] signature of the computation, [reduce_window_c15] a size is negative or too large.
Result ReduceWindow(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values,
                    Computation* computation, Dims window_dimensions, Dims window_strides, Dims base_dilations,
                    Dims window_dilations, Padding padding);
Result ReduceWindow(Builder& b, std::vector<Value> operands, const std::vector<Value>& init_values,
                    Computation* computation, Dims window_dimensions, Dims window_strides, Dims base_dilations,
                    Dims window_dilations, const PaddingPairs& padding);
// In each window of the operand, `select` (T, T -> pred: true keeps the first) chooses one element. The result has the
// shape of the operand and is filled with init_value; `scatter` combines the values of `source` into it at the chosen
// positions. Errors: [select_and_scatter_c1] to [select_and_scatter_c10].
Result SelectAndScatter(Builder& b, Value operand, Computation* select, Dims window_dimensions, Dims window_strides,
                        Padding padding, Value source, Value init_value, Computation* scatter);
Result SelectAndScatter(Builder& b, Value operand, Computation* select, Dims window_dimensions, Dims window_strides,
                        const PaddingPairs& padding, Value source, Value init_value, Computation* scatter);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_REDUCTION_H_
