// Builders of batch normalization, linear algebra, Fourier transforms and random numbers.
#ifndef BACKPLANE_CORE_IR_OPS_NUMERICS_H_
#define BACKPLANE_CORE_IR_OPS_NUMERICS_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Normalizes with the mean and variance of each feature, computed over all dimensions except feature_index
// ([batch_norm_*_c1]). scale, offset, mean and variance are vectors with the size of that dimension and the float type
// of the operand. epsilon is added to the variance to avoid division by zero. Errors: [batch_norm_*_c2] types,
// [batch_norm_*_c3] to [batch_norm_*_c6] sizes. Returns (output, batch mean, batch variance).
Result BatchNormTraining(Builder& b, Value operand, Value scale, Value offset, float epsilon, int64_t feature_index);
// Normalizes with the given mean and variance.
Result BatchNormInference(Builder& b, Value operand, Value scale, Value offset, Value mean, Value variance,
                          float epsilon, int64_t feature_index);
// Returns the gradients of (operand, scale, offset).
Result BatchNormGrad(Builder& b, Value operand, Value scale, Value batch_mean, Value batch_var, Value grad_output,
                     float epsilon, int64_t feature_index);

// Factorizes the positive definite matrices in the last two dimensions: a = l l^T if `lower`, else a = u^T u; conjugate
// transposes for complex types. Reads only that triangle of `a`. Errors: [cholesky_c2] rank, [cholesky_c3] not square.
Result Cholesky(Builder& b, Value a, bool lower);
// Solves op(a) x = rhs (left_side) or x op(a) = rhs for x, where `a` is triangular and op is given by transpose_a.
// Errors: [triangular_solve_c1] types, [triangular_solve_c2] ranks, [triangular_solve_c3] sizes.
Result TriangularSolve(Builder& b, Value a, Value rhs, bool left_side, bool lower, bool unit_diagonal,
                       TriangularTranspose transpose_a);
// Transforms the last 1 to 3 dimensions. fft_length lists their lengths in the time domain. Errors: [fft_c1] and
// [fft_c3] number of dimensions, [fft_c2] types, [fft_c4] and [fft_c5] sizes.
Result Fft(Builder& b, Value operand, FftType fft_type, Dims fft_length);

// Stateful generators, which return other values at each execution. The scalar arguments have the element type of the
// shape.
Result RngNormal(Builder& b, Value mu, Value sigma, const Shape& shape);   // floats
Result RngUniform(Builder& b, Value low, Value high, const Shape& shape);  // [low, high)
// Returns (new state, random bits of the shape), a function of the state alone. The state has two 64-bit words for
// kThreeFry, and two or three for the other algorithms: an array of 64-bit numbers, or of twice as many 32-bit numbers
// ([rng_bit_generator_c2]). Usually it is u64[2] or u64[3].
Result RngBitGenerator(Builder& b, RandomAlgorithm algorithm, Value initial_state, const Shape& shape);
// Returns the state of the process's generator, u64[2], and then advances it by `delta`. HLO only.
Result CreateRngGetAndUpdateState(Builder& b, const Shape& shape, int64_t delta);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_NUMERICS_H_
