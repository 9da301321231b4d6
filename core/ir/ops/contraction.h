// Matrix products and convolutions.
//
// precision_config says how exactly to multiply. preferred_element_type is the element type of the result; without it,
// that of the operands, the wider of the two where they differ.
#ifndef BACKPLANE_CORE_IR_OPS_CONTRACTION_H_
#define BACKPLANE_CORE_IR_OPS_CONTRACTION_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

using ElementType = std::optional<PrimitiveType>;

// Vectors and matrices ([dot_rank]): sums over the last dimension of lhs and the first of rhs.
Result Dot(Builder& b, Value lhs, Value rhs, const PrecisionConfig& precision_config = {},
           ElementType preferred_element_type = std::nullopt);
// Result dimensions: batch, then the free ones of lhs, then those of rhs. Errors: [dot_c1] to [dot_c13], [dot_c21] to
// [dot_c24] the algorithm.
Result DotGeneral(Builder& b, Value lhs, Value rhs, DotDimensions dimension_numbers,
                  const PrecisionConfig& precision_config = {}, ElementType preferred_element_type = std::nullopt);
// One dimension of lhs is ragged: cut into groups of the sizes in group_sizes, one after another. Ragged free
// dimension: group g multiplies slice g of rhs along its group dimension. Ragged contracting dimension: a product for
// each group, stacked in front. Ragged batch dimension: an ordinary product. Rows after the last group give 0. Errors:
// [ragged_dot_c1] to [ragged_dot_c16].
Result RaggedDot(Builder& b, Value lhs, Value rhs, Value group_sizes, RaggedDotDimensions dimension_numbers,
                 const PrecisionConfig& precision_config = {}, ElementType preferred_element_type = std::nullopt);
// DotGeneral of operands multiplied by their scales. A scale has the operand's rank and sizes, but that a contracting
// size may divide the operand's: each scale then stands for a block. Result bf16 unless told otherwise.
// Errors: [scaled_dot_c1] to [scaled_dot_c15].
Result ScaledDot(Builder& b, Value lhs, Value lhs_scale, Value rhs, Value rhs_scale, DotDimensions dimension_number,
                 const PrecisionConfig& precision_config = {}, ElementType preferred_element_type = std::nullopt);

// Convolutions with n spatial dimensions: lhs and rhs have rank n + 2 and, unless dimension numbers say otherwise, the
// order batch, feature, spatial... for lhs and result, and output feature, input feature, spatial... for rhs. Lists
// have one entry for each spatial dimension; no strides, dilations or reversals means 1, 1 and false. Errors:
// [convolution_c1] to [convolution_c27].
ConvolutionDimensions DefaultConvolutionDimensions(int64_t spatial_dimensions);

Result Conv(Builder& b, Value lhs, Value rhs, Dims window_strides, Padding padding, int64_t feature_group_count = 1,
            int64_t batch_group_count = 1, const PrecisionConfig& precision_config = {},
            ElementType preferred_element_type = std::nullopt);
Result ConvWithGeneralPadding(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                              int64_t feature_group_count = 1, int64_t batch_group_count = 1,
                              const PrecisionConfig& precision_config = {},
                              ElementType preferred_element_type = std::nullopt);
Result ConvWithGeneralDimensions(Builder& b, Value lhs, Value rhs, Dims window_strides, Padding padding,
                                 ConvolutionDimensions dimension_numbers, int64_t feature_group_count = 1,
                                 int64_t batch_group_count = 1, const PrecisionConfig& precision_config = {},
                                 ElementType preferred_element_type = std::nullopt);
Result ConvGeneral(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                   ConvolutionDimensions dimension_numbers, int64_t feature_group_count = 1,
                   int64_t batch_group_count = 1, const PrecisionConfig& precision_config = {},
                   ElementType preferred_element_type = std::nullopt);
// lhs_dilation: holes between the operand's elements; rhs_dilation: between the kernel's; window_reversal: the kernel
// is turned round in those dimensions first.
Result ConvGeneralDilated(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                          Dims lhs_dilation, Dims rhs_dilation, ConvolutionDimensions dimension_numbers,
                          int64_t feature_group_count = 1, int64_t batch_group_count = 1,
                          const PrecisionConfig& precision_config = {},
                          ElementType preferred_element_type = std::nullopt,
                          const std::vector<bool>& window_reversal = {});

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_CONTRACTION_H_
