// Shape rule and cost of convolution.
#include "core/ops/families/checks.h"

namespace backplane {

absl::StatusOr<Shape> InferConvolution(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape &lhs = op.operand(0), &rhs = op.operand(1);
  const ConvolutionDimensions& d = op.attrs->Get<ConvolutionDimensions>(AttrId::kConvolutionDims);
  const Window& w = op.attrs->Get<Window>(AttrId::kWindow);
  const int64_t feature_groups = op.attrs->GetInt(AttrId::kFeatureGroupCount, 1);
  const int64_t batch_groups = op.attrs->GetInt(AttrId::kBatchGroupCount, 1);
  const int64_t rank = lhs.rank(), n = rank - 2;
  if (rank != rhs.rank() || n < 0) {
    return Fail(op, "convolution_c1", "ranks must be equal and at least 2: lhs ", lhs.ToString(), ", rhs ",
                rhs.ToString());
  }
  if (static_cast<int64_t>(w.dimensions.size()) != n) {
    return Fail(op, "convolution_c2", "the window has ", w.dimensions.size(), " dimensions, expected ", n);
  }
  for (int64_t i = 0; i < n; ++i) {
    const WindowDimension& x = w.dimensions[i];
    if (x.stride <= 0) return Fail(op, "convolution_c3", "stride ", x.stride, " of window dim ", i, " is not positive");
    if (x.base_dilation <= 0) {
      return Fail(op, "convolution_c6", "lhs dilation ", x.base_dilation, " of window dim ", i, " is not positive");
    }
    if (x.window_dilation <= 0) {
      return Fail(op, "convolution_c8", "rhs dilation ", x.window_dilation, " of window dim ", i, " is not positive");
    }
  }
  auto check = [&](absl::string_view what, int64_t a, int64_t b, const Ints& spatial, absl::string_view count,
                   absl::string_view unique) -> absl::Status {
    if (static_cast<int64_t>(spatial.size()) != n) {
      return Fail(op, count, what, " has ", spatial.size(), " spatial dims, expected ", n);
    }
    Ints all = spatial;
    all.push_back(a);
    all.push_back(b);
    if (!IsPermutation(all, rank))
      return Fail(op, unique, what, " dims are no permutation of rank ", rank, ": ", FormatDims(all));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(
      check("input", d.input_batch, d.input_feature, d.input_spatial, "convolution_c12", "convolution_c13"));
  RETURN_IF_ERROR(check("kernel", d.kernel_input_feature, d.kernel_output_feature, d.kernel_spatial, "convolution_c17",
                        "convolution_c18"));
  RETURN_IF_ERROR(
      check("output", d.output_batch, d.output_feature, d.output_spatial, "convolution_c19", "convolution_c20"));
  if (feature_groups <= 0)
    return Fail(op, "convolution_c21", "feature group count ", feature_groups, " is not positive");
  if (batch_groups <= 0) return Fail(op, "convolution_c22", "batch group count ", batch_groups, " is not positive");
  if (feature_groups > 1 && batch_groups > 1) return Fail(op, "convolution_c23", "both group counts exceed 1");
  const int64_t batch = lhs.dimensions(d.input_batch), in = lhs.dimensions(d.input_feature);
  const int64_t kernel_in = rhs.dimensions(d.kernel_input_feature), out = rhs.dimensions(d.kernel_output_feature);
  if (batch % batch_groups != 0) {
    return Fail(op, "convolution_c10", "batch ", batch, " is not divisible by batch group count ", batch_groups);
  }
  if (in % feature_groups != 0) {
    return Fail(op, "convolution_c11", "input features ", in, " are not divisible by feature group count ",
                feature_groups);
  }
  if (kernel_in != in / feature_groups) {
    return Fail(op, "convolution_c14", "rhs ", rhs.ToString(), " has ", kernel_in, " input features, expected ",
                in / feature_groups);
  }
  if (out % batch_groups != 0) {
    return Fail(op, "convolution_c15", "output features ", out, " are not divisible by batch group count ",
                batch_groups);
  }
  if (out % feature_groups != 0) {
    return Fail(op, "convolution_c16", "output features ", out, " are not divisible by feature group count ",
                feature_groups);
  }
  const Precisions& precision = op.attrs->Get<Precisions>(AttrId::kOperandPrecision);
  if (!precision.empty() && precision.size() != 2) {
    return Fail(op, "convolution_c24", "operand precision has ", precision.size(), " entries, expected 2");
  }
  DimVector dims(rank, 0);
  dims[d.output_batch] = batch / batch_groups;
  dims[d.output_feature] = out;
  for (int64_t i = 0; i < n; ++i) {
    WindowDimension x = w.dimensions[i];
    const int64_t kernel = rhs.dimensions(d.kernel_spatial[i]);
    if (x.size != kernel) {
      return Fail(op, "convolution_c25", "window size ", x.size, " of dim ", i, " differs from rhs ", rhs.ToString(),
                  " dim ", d.kernel_spatial[i]);
    }
    const int64_t size = ComputeWindowedSize(lhs.dimensions(d.input_spatial[i]), x);
    if (size < 0) {
      return Fail(op, "convolution_c25", "spatial dim ", i, " would get a size that is negative or too large");
    }
    dims[d.output_spatial[i]] = size;
  }
  const PrimitiveType a = lhs.element_type(), b = rhs.element_type();
  PrimitiveType type = a;
  if (op.declared != nullptr)
    type = op.declared->element_type();
  else if (a != b)
    return Fail(op, "convolution_declared", "operands differ in type and no result type is given");
  if (IsComplex(a) != IsComplex(b) || IsComplex(a) != IsComplex(type) || (IsFloat(a) && !IsFloat(type)) ||
      !IsArrayType(type)) {
    return Fail(op, "convolution_c27", "element types do not go together: ", lhs.ToString(), ", ", rhs.ToString(),
                ", result ", Name(type));
  }
  return Shape(type, dims);
}

Cost CostConvolution(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  const ConvolutionDimensions& d = op.attrs->Get<ConvolutionDimensions>(AttrId::kConvolutionDims);
  const Shape& rhs = op.operand(1);
  double k = static_cast<double>(rhs.dimensions(d.kernel_input_feature));
  for (int64_t i : d.kernel_spatial) k *= static_cast<double>(rhs.dimensions(i));
  cost.flops = 2 * k * ElementCount(result);
  return cost;
}

}  // namespace backplane
