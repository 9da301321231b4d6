// Batch normalization, linear algebra, Fourier transforms, random numbers.
#ifndef BACKPLANE_CORE_IR_OPS_NUMERICS_H_
#define BACKPLANE_CORE_IR_OPS_NUMERICS_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Statistics for each feature (index along feature_index, [batch_norm_*_c1]) over all other dimensions. scale, offset,
// mean and variance are vectors of that dimension's size and of the operand's float type; epsilon keeps from dividing
// by zero. Errors: [batch_norm_*_c2] types, [batch_norm_*_c3] to [batch_norm_*_c6] sizes. Result (output, batch mean,
// batch variance).
Result BatchNormTraining(Builder& b, Value operand, Value scale, Value offset, float epsilon, int64_t feature_index);
// Result: the output, with mean and variance as given.
Result BatchNormInference(Builder& b, Value operand, Value scale, Value offset, Value mean, Value variance,
                          float epsilon, int64_t feature_index);
// Result (gradient of the operand, of scale, of offset).
Result BatchNormGrad(Builder& b, Value operand, Value scale, Value batch_mean, Value batch_var, Value grad_output,
                     float epsilon, int64_t feature_index);

// Factors of positive definite matrices in the last two dimensions: a = l lT (lower) or uT u. Only that triangle is
// read. Errors: [cholesky_c2] rank, [cholesky_c3] not square.
Result Cholesky(Builder& b, Value a, bool lower);
// x of op(a) x = b (left_side) or x op(a) = b, a triangular. Errors: [triangular_solve_c1] types, [triangular_solve_c2]
// ranks, [triangular_solve_c3] sizes.
Result TriangularSolve(Builder& b, Value a, Value rhs, bool left_side, bool lower, bool unit_diagonal,
                       TriangularTranspose transpose_a);
// Transform of the last 1 to 3 dimensions, whose lengths in the time domain are fft_length. Errors: [fft_c1] and
// [fft_c3] their number, [fft_c2] types, [fft_c4] and [fft_c5] sizes.
Result Fft(Builder& b, Value operand, FftType fft_type, Dims fft_length);

// Stateful generators: another value at each execution. Scalars mu, sigma, a, b are of the shape's element type.
Result RngNormal(Builder& b, Value mu, Value sigma, const Shape& shape);   // floats
Result RngUniform(Builder& b, Value low, Value high, const Shape& shape);  // [low, high)
// (new state, random bits of the shape), a function of the state: u64[2] for kThreeFry, u64[2] or u64[3] otherwise.
Result RngBitGenerator(Builder& b, RandomAlgorithm algorithm, Value initial_state, const Shape& shape);
// The process's generator state, u64[2], which then moves on by delta. HLO level.
Result CreateRngGetAndUpdateState(Builder& b, const Shape& shape, int64_t delta);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_NUMERICS_H_
