// Evaluation of batch normalization, in f64.
#include <cmath>
#include <limits>

#include "core/ops/families/elements.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

std::vector<double> Read(const Literal& x) {
  std::vector<double> v(static_cast<size_t>(x.num_elements()));
  ReadElements(x.shape().element_type(), x.bytes(), 0, x.num_elements(), v.data());
  return v;
}

Literal Write(const Shape& shape, const std::vector<double>& v) {
  Literal out(shape);
  WriteElements(shape.element_type(), out.mutable_bytes(), 0, out.num_elements(), v.data());
  return out;
}

}  // namespace

absl::StatusOr<Literal> EvaluateNormalization(const OpContext& op, Args args, EvalEnv& env) {
  const Shape& shape = args[0]->shape();
  const int64_t feature = op.attrs->GetInt(AttrId::kFeatureIndex);
  const double epsilon = op.attrs->GetDouble(AttrId::kEpsilon);
  const size_t features = static_cast<size_t>(shape.dimensions(feature));
  size_t inner = 1;
  for (int64_t d = feature + 1; d < shape.rank(); ++d) inner *= static_cast<size_t>(shape.dimensions(d));
  const std::vector<double> x = Read(*args[0]), scale = Read(*args[1]);
  auto feature_of = [&](size_t i) { return i / inner % features; };
  const double count = features == 0 ? 0 : static_cast<double>(x.size()) / static_cast<double>(features);
  const Shape vector(shape.element_type(), {shape.dimensions(feature)});
  std::vector<double> y(x.size());
  std::vector<Literal> results;

  if (op.opcode == Opcode::kBatchNormGrad) {
    const std::vector<double> mean = Read(*args[2]), variance = Read(*args[3]), grad = Read(*args[4]);
    std::vector<double> sum(features, 0), product(features, 0), grad_scale(features);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t f = feature_of(i);
      sum[f] += grad[i];
      product[f] += grad[i] * (x[i] - mean[f]);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t f = feature_of(i);
      const double v = variance[f] + epsilon;
      y[i] = scale[f] / std::sqrt(v) * (grad[i] - sum[f] / count - (x[i] - mean[f]) * product[f] / (v * count));
    }
    for (size_t f = 0; f < features; ++f) grad_scale[f] = product[f] / std::sqrt(variance[f] + epsilon);
    results.push_back(Write(shape.WithoutLayout(), y));
    results.push_back(Write(vector, grad_scale));
    results.push_back(Write(vector, sum));
    return Literal::Tuple(std::move(results));
  }
  const std::vector<double> offset = Read(*args[2]);
  std::vector<double> mean(features, 0), variance(features, 0);
  if (op.opcode == Opcode::kBatchNormInference) {
    mean = Read(*args[3]);
    variance = Read(*args[4]);
  } else {
    // Of no elements: 0 / 0, as the operations it stands for say.
    if (count == 0) mean.assign(features, std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < x.size(); ++i) mean[feature_of(i)] += x[i] / count;
    for (size_t i = 0; i < x.size(); ++i)
      variance[feature_of(i)] += (x[i] - mean[feature_of(i)]) * (x[i] - mean[feature_of(i)]) / count;
    if (count == 0) variance = mean;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t f = feature_of(i);
    y[i] = scale[f] * (x[i] - mean[f]) / std::sqrt(variance[f] + epsilon) + offset[f];
  }
  if (op.opcode == Opcode::kBatchNormInference) return Write(shape.WithoutLayout(), y);
  results.push_back(Write(shape.WithoutLayout(), y));
  results.push_back(Write(vector, mean));
  results.push_back(Write(vector, variance));
  return Literal::Tuple(std::move(results));
}

}  // namespace backplane
