// Matrix products and convolutions.
//
// `preferred_element_type` is the element type of the result. By default it is that of the operands, or the wider one
// if they differ.
#ifndef BACKPLANE_CORE_IR_OPS_CONTRACTION_H_
#define BACKPLANE_CORE_IR_OPS_CONTRACTION_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

using ElementType = std::optional<PrimitiveType>;

// Multiplies vectors and matrices (other ranks: [dot_rank]). Sums over the last dimension of lhs and the first one of
// rhs.
Result Dot(Builder& b, Value lhs, Value rhs, const PrecisionConfig& precision_config = {},
           ElementType preferred_element_type = std::nullopt);
// Multiplies arrays with batch and contracting dimensions. The result has the batch dimensions, then the free
// dimensions of lhs, then those of rhs. Errors: [dot_c1] to [dot_c13], and for the algorithm [dot_c21] to [dot_c24].
Result DotGeneral(Builder& b, Value lhs, Value rhs, DotDimensions dimension_numbers,
                  const PrecisionConfig& precision_config = {}, ElementType preferred_element_type = std::nullopt);
// A dot in which one dimension of lhs is ragged: it consists of consecutive groups with the sizes in group_sizes. If
// the ragged dimension is free, group g is multiplied by slice g of rhs along its group dimension. If it is
// contracting, the result has one product per group, along a new leading dimension. If it is a batch dimension, the
// result is that of an ordinary dot. Rows after the last group give 0. Errors: [ragged_dot_c1] to [ragged_dot_c16].
Result RaggedDot(Builder& b, Value lhs, Value rhs, Value group_sizes, RaggedDotDimensions dimension_numbers,
                 const PrecisionConfig& precision_config = {}, ElementType preferred_element_type = std::nullopt);
// DotGeneral of operands that are multiplied by their scales first. A scale has the rank and the sizes of its operand,
// except that the size of a contracting dimension may be a divisor of the operand's: each scale then applies to a block
// of elements. The result is bf16 unless preferred_element_type is given. Errors: [scaled_dot_c1] to [scaled_dot_c15].
Result ScaledDot(Builder& b, Value lhs, Value lhs_scale, Value rhs, Value rhs_scale, DotDimensions dimension_number,
                 const PrecisionConfig& precision_config = {}, ElementType preferred_element_type = std::nullopt);

// Convolutions with n spatial dimensions; lhs and rhs have rank n + 2. The default order of dimensions is batch,
// feature, spatial... for lhs and result, and output feature, input feature, spatial... for rhs. Lists have one entry
// per spatial dimension. An empty list means strides and dilations of 1 and no reversal. Errors: [convolution_c1] to
// [convolution_c27].
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
// Dilation puts lhs_dilation - 1 holes between neighbouring elements of the operand and rhs_dilation - 1 between those
// of the kernel. The kernel is reversed along the dimensions in which window_reversal is true.
Result ConvGeneralDilated(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                          Dims lhs_dilation, Dims rhs_dilation, ConvolutionDimensions dimension_numbers,
                          int64_t feature_group_count = 1, int64_t batch_group_count = 1,
                          const PrecisionConfig& precision_config = {},
                          ElementType preferred_element_type = std::nullopt,
                          const std::vector<bool>& window_reversal = {});

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_CONTRACTION_H_
