// The inner loop of convolutions with few features per group, for three vector widths. Private to convolution_thin.cc.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_THIN_SIMD_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_THIN_SIMD_H_

#include <stdint.h>

namespace backplane::engine {

// Computes out[j] = sum over t of sources[t][j] * weights[t] for j < count, in the order of t. Every product and every
// sum is rounded, so all machines and the evaluator get the same bits.
struct ThinKernels {
  void (*f32)(const float* const* sources, const float* weights, int64_t taps, float* out, int64_t count);
  void (*f64)(const double* const* sources, const double* weights, int64_t taps, double* out, int64_t count);
};

namespace base {
extern const ThinKernels thin_kernels;
}
namespace avx2 {
extern const ThinKernels thin_kernels;
}
namespace avx512 {
extern const ThinKernels thin_kernels;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_THIN_SIMD_H_
