#ifndef BACKPLANE_SDK_ENGINE_JIT_VECTOR_MATH_RUNTIME_H_
#define BACKPLANE_SDK_ENGINE_JIT_VECTOR_MATH_RUNTIME_H_

#include <cstdint>

namespace backplane::engine::jit {

// What generated code calls in rare cases, n lanes through memory. Exported to it under the
// names backplane_reduce_angle_f32, ..., by DefaultSymbols().
//
// x = quadrant * pi/2 + hi + lo with |hi| at most pi/4 or a little more; for |x| of at least 2^16 only, smaller lanes
// get anything. The quadrant is right in its low bits. NaN for infinity.
void ReduceAngleF64(const double* x, double* hi, double* lo, int64_t* quadrant, int64_t n);
void ReduceAngleF32(const float* x, float* hi, float* lo, int32_t* quadrant, int64_t n);
void FmodF64(const double* x, const double* y, double* out, int64_t n);
void FmodF32(const float* x, const float* y, float* out, int64_t n);

}  // namespace backplane::engine::jit

#endif  // BACKPLANE_SDK_ENGINE_JIT_VECTOR_MATH_RUNTIME_H_
