// Shape rule and cost of fft.
#include "core/ops/families/checks.h"

namespace backplane {

absl::StatusOr<Shape> InferFft(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape& x = op.operand(0);
  const Ints& length = op.attrs->GetInts(AttrId::kFftLength);
  const FftType type = op.attrs->GetEnum<FftType>(AttrId::kFftType);
  const int64_t axes = static_cast<int64_t>(length.size()), first = x.rank() - axes;
  if (axes < 1 || axes > 3) return Fail(op, "fft_c3", "transforms ", axes, " axes, expected 1 to 3");
  if (first < 0) return Fail(op, "fft_c1", "transforms ", axes, " axes, operand is ", x.ToString());
  if (!AllInRange(length, 0, INT64_MAX)) return Fail(op, "fft_i3", "length ", FormatDims(length), " is negative");
  const PrimitiveType t = x.element_type();
  PrimitiveType out = t;
  if (type == FftType::kRfft) {
    out = GetComplexType(t);
    if (out == PrimitiveType::kInvalid) return Fail(op, "fft_c2", "RFFT takes f32 or f64, found ", x.ToString());
  } else {
    if (!IsComplex(t)) return Fail(op, "fft_c2", "takes complex numbers, found ", x.ToString());
    if (type == FftType::kIrfft) out = ComplexPart(t);
  }
  DimVector dims = x.dimensions();
  for (int64_t i = 0; i < axes; ++i) {
    const bool last = i == axes - 1;
    int64_t want = length[i];
    if (last && type == FftType::kIrfft) want = length[i] == 0 ? 0 : length[i] / 2 + 1;
    // JAX's default for one number is the length 0, of which 0 / 2 + 1 numbers are given; the result is empty.
    const bool is_one_for_none = last && type == FftType::kIrfft && length[i] == 0 && dims[first + i] == 1;
    if (dims[first + i] != want && !is_one_for_none) {
      return Fail(op, type == FftType::kIrfft && last ? "fft_c5" : "fft_c4", "length ", FormatDims(length),
                  " does not fit ", x.ToString(), " in dim ", first + i);
    }
    if (last && type == FftType::kRfft) dims[first + i] = length[i] == 0 ? 0 : length[i] / 2 + 1;
    if (last && type == FftType::kIrfft) dims[first + i] = length[i];
  }
  return Shape(out, dims);
}

Cost CostFft(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  double n = 1, log_n = 0;
  for (int64_t d : op.attrs->GetInts(AttrId::kFftLength)) n *= static_cast<double>(d);
  for (double m = 1; m < n; m *= 2) log_n += 1;
  cost.flops = 5 * log_n * ElementCount(result);
  return cost;
}

}  // namespace backplane
