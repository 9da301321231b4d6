#include "core/ir/ops/contraction.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {
namespace {

using internal::Fail;
using internal::Inferred;

// The wider type where the operands differ; the left one where they are of one width, so that the family's rule speaks.
PrimitiveType ResultType(Value lhs, Value rhs, ElementType preferred) {
  if (preferred) return *preferred;
  const PrimitiveType l = lhs->shape().element_type(), r = rhs->shape().element_type();
  if (IsFloat(r) && IsIntegral(l)) return r;
  if (IsFloat(l) && IsIntegral(r)) return l;
  return BitWidth(r) > BitWidth(l) ? r : l;
}

void SetPrecision(const PrecisionConfig& config, bool with_algorithm, Attributes* attrs) {
  if (!config.operand_precision.empty()) attrs->Set(AttrId::kOperandPrecision, config.operand_precision);
  if (with_algorithm && config.algorithm) attrs->Set(AttrId::kDotAlgorithm, *config.algorithm);
}

// The instruction with its result declared: the dimensions are inferred from operands of one type, whatever theirs are,
// and the rules on types are those of the whole.
Result AddTyped(Builder& b, Opcode opcode, std::vector<Value> operands, Attributes attrs, PrimitiveType type) {
  if (!IsArrayType(type)) {
    return Fail(opcode, "preferred_element_type", Name(type), " is no type of elements");
  }
  std::vector<Shape> shapes;
  for (Value v : operands) shapes.push_back(v->shape());
  for (int i = 0; i < 2; ++i) shapes[i] = shapes[i].WithElementType(PrimitiveType::kF32);
  ASSIGN_OR_RETURN(Shape shape, Inferred(opcode, shapes, attrs));
  return b.Op(opcode, std::move(operands), std::move(attrs), {}, shape.WithElementType(type));
}

absl::Status NoAlgorithm(Opcode opcode, const PrecisionConfig& config, absl::string_view label) {
  if (!config.algorithm) return absl::OkStatus();
  return Fail(opcode, label, "takes no algorithm");
}

struct Spatial {
  Dims strides, lhs_dilation, rhs_dilation;
  const std::vector<bool>* reversal = nullptr;
};

Result Convolve(Builder& b, Value lhs, Value rhs, const Spatial& spatial, const PaddingPairs* pairs, Padding padding,
                ConvolutionDimensions dims, int64_t feature_groups, int64_t batch_groups,
                const PrecisionConfig& precision, ElementType preferred) {
  constexpr Opcode kOp = Opcode::kConvolution;
  const Shape &x = lhs->shape(), &k = rhs->shape();
  if (x.rank() != k.rank() || x.rank() < 2) {
    return Fail(kOp, "convolution_c1", "ranks must be equal and at least 2: lhs ", x.ToString(), ", rhs ",
                k.ToString());
  }
  const size_t n = static_cast<size_t>(x.rank() - 2);
  auto check = [&](absl::string_view label, absl::string_view what, size_t size, bool optional) -> absl::Status {
    if (size == n || (optional && size == 0)) return absl::OkStatus();
    return Fail(kOp, label, "has ", size, " ", what, ", expected ", n);
  };
  RETURN_IF_ERROR(check("convolution_c2", "window strides", spatial.strides.size(), true));
  if (pairs != nullptr) RETURN_IF_ERROR(check("convolution_c4", "pairs of padding", pairs->size(), false));
  RETURN_IF_ERROR(check("convolution_c5", "lhs dilations", spatial.lhs_dilation.size(), true));
  RETURN_IF_ERROR(check("convolution_c7", "rhs dilations", spatial.rhs_dilation.size(), true));
  if (spatial.reversal != nullptr) {
    RETURN_IF_ERROR(check("convolution_c9", "window reversals", spatial.reversal->size(), true));
  }
  RETURN_IF_ERROR(check("convolution_c12", "input spatial dimensions", dims.input_spatial.size(), false));
  RETURN_IF_ERROR(check("convolution_c17", "kernel spatial dimensions", dims.kernel_spatial.size(), false));
  Window window;
  for (size_t i = 0; i < n; ++i) {
    auto in = [](const Shape& s, int64_t d) { return d >= 0 && d < s.rank() ? s.dimensions(d) : int64_t{0}; };
    WindowDimension w;
    w.size = in(k, dims.kernel_spatial[i]);
    if (!spatial.strides.empty()) w.stride = spatial.strides[i];
    if (!spatial.lhs_dilation.empty()) w.base_dilation = spatial.lhs_dilation[i];
    if (!spatial.rhs_dilation.empty()) w.window_dilation = spatial.rhs_dilation[i];
    if (spatial.reversal != nullptr && !spatial.reversal->empty()) w.window_reversal = (*spatial.reversal)[i];
    if (pairs != nullptr) {
      std::tie(w.padding_low, w.padding_high) = (*pairs)[i];
    } else {  // these forms have no dilation
      ASSIGN_OR_RETURN(auto pair,
                       internal::ComputePadding(kOp, padding, in(x, dims.input_spatial[i]), w.size, w.stride));
      std::tie(w.padding_low, w.padding_high) = pair;
    }
    window.dimensions.push_back(w);
  }
  RETURN_IF_ERROR(NoAlgorithm(kOp, precision, "convolution_algorithm"));
  Attributes attrs;
  attrs.Set(AttrId::kWindow, std::move(window));
  attrs.Set(AttrId::kConvolutionDims, std::move(dims));
  if (feature_groups != 1) attrs.Set(AttrId::kFeatureGroupCount, feature_groups);
  if (batch_groups != 1) attrs.Set(AttrId::kBatchGroupCount, batch_groups);
  SetPrecision(precision, false, &attrs);
  return AddTyped(b, kOp, {lhs, rhs}, std::move(attrs), ResultType(lhs, rhs, preferred));
}

}  // namespace

Result DotGeneral(Builder& b, Value lhs, Value rhs, DotDimensions dimension_numbers, const PrecisionConfig& precision,
                  ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kDot, {lhs, rhs}));
  Attributes attrs;
  attrs.Set(AttrId::kDotDims, std::move(dimension_numbers));
  SetPrecision(precision, true, &attrs);
  return AddTyped(b, Opcode::kDot, {lhs, rhs}, std::move(attrs), ResultType(lhs, rhs, preferred));
}

Result Dot(Builder& b, Value lhs, Value rhs, const PrecisionConfig& precision, ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kDot, {lhs, rhs}));
  const int64_t l = lhs->shape().rank(), r = rhs->shape().rank();
  if (l < 1 || l > 2 || r < 1 || r > 2) {
    return Fail(Opcode::kDot, "dot_rank", "takes vectors and matrices, found lhs ", lhs->shape().ToString(), ", rhs ",
                rhs->shape().ToString());
  }
  DotDimensions dims;
  dims.lhs_contracting = {l - 1};
  dims.rhs_contracting = {0};
  return DotGeneral(b, lhs, rhs, std::move(dims), precision, preferred);
}

Result RaggedDot(Builder& b, Value lhs, Value rhs, Value group_sizes, RaggedDotDimensions dimension_numbers,
                 const PrecisionConfig& precision, ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kRaggedDot, {lhs, rhs, group_sizes}));
  RETURN_IF_ERROR(NoAlgorithm(Opcode::kRaggedDot, precision, "ragged_dot_algorithm"));
  Attributes attrs;
  attrs.Set(AttrId::kRaggedDotDims, std::move(dimension_numbers));
  SetPrecision(precision, false, &attrs);
  return AddTyped(b, Opcode::kRaggedDot, {lhs, rhs, group_sizes}, std::move(attrs), ResultType(lhs, rhs, preferred));
}

Result ScaledDot(Builder& b, Value lhs, Value lhs_scale, Value rhs, Value rhs_scale, DotDimensions dimension_number,
                 const PrecisionConfig& precision, ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kScaledDot, {lhs, rhs, lhs_scale, rhs_scale}));
  RETURN_IF_ERROR(NoAlgorithm(Opcode::kScaledDot, precision, "scaled_dot_algorithm"));
  Attributes attrs;
  attrs.Set(AttrId::kDotDims, std::move(dimension_number));
  SetPrecision(precision, false, &attrs);
  return AddTyped(b, Opcode::kScaledDot, {lhs, rhs, lhs_scale, rhs_scale}, std::move(attrs),
                  preferred.value_or(PrimitiveType::kBF16));
}

ConvolutionDimensions DefaultConvolutionDimensions(int64_t spatial_dimensions) {
  ConvolutionDimensions d;
  d.input_batch = d.output_batch = d.kernel_output_feature = 0;
  d.input_feature = d.output_feature = d.kernel_input_feature = 1;
  for (int64_t i = 0; i < spatial_dimensions; ++i) d.input_spatial.push_back(i + 2);
  d.kernel_spatial = d.output_spatial = d.input_spatial;
  return d;
}

Result Conv(Builder& b, Value lhs, Value rhs, Dims window_strides, Padding padding, int64_t feature_group_count,
            int64_t batch_group_count, const PrecisionConfig& precision, ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kConvolution, {lhs, rhs}));
  return Convolve(b, lhs, rhs, {window_strides, {}, {}}, nullptr, padding,
                  DefaultConvolutionDimensions(lhs->shape().rank() - 2), feature_group_count, batch_group_count,
                  precision, preferred);
}

Result ConvWithGeneralPadding(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                              int64_t feature_group_count, int64_t batch_group_count, const PrecisionConfig& precision,
                              ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kConvolution, {lhs, rhs}));
  return Convolve(b, lhs, rhs, {window_strides, {}, {}}, &padding, Padding::kValid,
                  DefaultConvolutionDimensions(lhs->shape().rank() - 2), feature_group_count, batch_group_count,
                  precision, preferred);
}

Result ConvWithGeneralDimensions(Builder& b, Value lhs, Value rhs, Dims window_strides, Padding padding,
                                 ConvolutionDimensions dimension_numbers, int64_t feature_group_count,
                                 int64_t batch_group_count, const PrecisionConfig& precision, ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kConvolution, {lhs, rhs}));
  return Convolve(b, lhs, rhs, {window_strides, {}, {}}, nullptr, padding, std::move(dimension_numbers),
                  feature_group_count, batch_group_count, precision, preferred);
}

Result ConvGeneral(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                   ConvolutionDimensions dimension_numbers, int64_t feature_group_count, int64_t batch_group_count,
                   const PrecisionConfig& precision, ElementType preferred) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kConvolution, {lhs, rhs}));
  return Convolve(b, lhs, rhs, {window_strides, {}, {}}, &padding, Padding::kValid, std::move(dimension_numbers),
                  feature_group_count, batch_group_count, precision, preferred);
}

Result ConvGeneralDilated(Builder& b, Value lhs, Value rhs, Dims window_strides, const PaddingPairs& padding,
                          Dims lhs_dilation, Dims rhs_dilation, ConvolutionDimensions dimension_numbers,
                          int64_t feature_group_count, int64_t batch_group_count, const PrecisionConfig& precision,
                          ElementType preferred, const std::vector<bool>& window_reversal) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kConvolution, {lhs, rhs}));
  return Convolve(b, lhs, rhs, {window_strides, lhs_dilation, rhs_dilation, &window_reversal}, &padding,
                  Padding::kValid, std::move(dimension_numbers), feature_group_count, batch_group_count, precision,
                  preferred);
}

}  // namespace backplane::hlo
