#include "core/ir/ops/numerics.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {
namespace {

Attributes Normalization(float epsilon, int64_t feature_index) {
  Attributes attrs;
  attrs.Set(AttrId::kEpsilon, static_cast<double>(epsilon));
  attrs.Set(AttrId::kFeatureIndex, feature_index);
  return attrs;
}

Result Rng(Builder& b, Value x, Value y, const Shape& shape, RandomDistribution distribution) {
  Attributes attrs;
  attrs.SetEnum(AttrId::kRandomDistribution, distribution);
  return b.Op(Opcode::kRng, {x, y}, std::move(attrs), {}, shape);
}

}  // namespace

Result BatchNormTraining(Builder& b, Value operand, Value scale, Value offset, float epsilon, int64_t feature_index) {
  return b.Op(Opcode::kBatchNormTraining, {operand, scale, offset}, Normalization(epsilon, feature_index));
}

Result BatchNormInference(Builder& b, Value operand, Value scale, Value offset, Value mean, Value variance,
                          float epsilon, int64_t feature_index) {
  return b.Op(Opcode::kBatchNormInference, {operand, scale, offset, mean, variance},
              Normalization(epsilon, feature_index));
}

Result BatchNormGrad(Builder& b, Value operand, Value scale, Value batch_mean, Value batch_var, Value grad_output,
                     float epsilon, int64_t feature_index) {
  return b.Op(Opcode::kBatchNormGrad, {operand, scale, batch_mean, batch_var, grad_output},
              Normalization(epsilon, feature_index));
}

Result Cholesky(Builder& b, Value a, bool lower) {
  Attributes attrs;
  attrs.Set(AttrId::kLower, lower);
  return b.Op(Opcode::kCholesky, {a}, std::move(attrs));
}

Result TriangularSolve(Builder& b, Value a, Value rhs, bool left_side, bool lower, bool unit_diagonal,
                       TriangularTranspose transpose_a) {
  Attributes attrs;
  attrs.Set(AttrId::kLeftSide, left_side);
  attrs.Set(AttrId::kLower, lower);
  attrs.Set(AttrId::kUnitDiagonal, unit_diagonal);
  attrs.SetEnum(AttrId::kTransposeA, transpose_a);
  return b.Op(Opcode::kTriangularSolve, {a, rhs}, std::move(attrs));
}

Result Fft(Builder& b, Value operand, FftType fft_type, Dims fft_length) {
  Attributes attrs;
  attrs.SetEnum(AttrId::kFftType, fft_type);
  attrs.Set(AttrId::kFftLength, internal::AsInts(fft_length));
  return b.Op(Opcode::kFft, {operand}, std::move(attrs));
}

Result RngNormal(Builder& b, Value mu, Value sigma, const Shape& shape) {
  return Rng(b, mu, sigma, shape, RandomDistribution::kNormal);
}

Result RngUniform(Builder& b, Value low, Value high, const Shape& shape) {
  return Rng(b, low, high, shape, RandomDistribution::kUniform);
}

Result RngBitGenerator(Builder& b, RandomAlgorithm algorithm, Value initial_state, const Shape& shape) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kRngBitGenerator, {initial_state}));
  Attributes attrs;
  attrs.SetEnum(AttrId::kRandomAlgorithm, algorithm);
  return b.Op(Opcode::kRngBitGenerator, {initial_state}, std::move(attrs), {},
              Shape::Tuple({initial_state->shape().WithoutLayout(), shape}));
}

Result CreateRngGetAndUpdateState(Builder& b, const Shape& shape, int64_t delta) {
  Attributes attrs;
  attrs.Set(AttrId::kDelta, delta);
  return b.Op(Opcode::kRngGetAndUpdateState, {}, std::move(attrs), {}, shape);
}

}  // namespace backplane::hlo
