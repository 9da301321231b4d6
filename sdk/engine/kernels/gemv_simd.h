// Multiplies a matrix by up to four vectors, for several vector widths. Private to matmul_gemv.cc.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_GEMV_SIMD_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_GEMV_SIMD_H_

#include <stdint.h>

namespace backplane::engine {

// Element type of matrix and vectors, and of the result (an f16 matrix may have an f32 result).
enum class GemvType { kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 3 };

struct GemvKernels {
  // The matrix w has rows i of k contiguous elements, ws apart. out[r * out_r + i * out_i] = w[i, :] . x[r, :] for i in
  // [begin, end) and r < vectors; x has contiguous rows xs apart. `wide_out`: result in f32 for f16 and bf16.
  void (*dots)(GemvType type, int vectors, int64_t begin, int64_t end, int64_t k, const void* w, int64_t ws,
               const void* x, int64_t xs, void* out, int64_t out_r, int64_t out_i, bool wide_out);
  // The matrix w has rows k of n contiguous elements, ws apart. acc[r * accs + j] = sum of x[r, k] * w[k, j] for k in
  // [begin, end), overwriting acc, which is f64 for kF64 and f32 otherwise.
  void (*columns)(GemvType type, int vectors, int64_t begin, int64_t end, int64_t n, const void* w, int64_t ws,
                  const void* x, int64_t xs, void* acc, int64_t accs);
  // out[j * out_stride] = sum over c < parts of acc[c * part_stride + j], for j in [begin, end).
  void (*reduce)(GemvType type, int64_t parts, int64_t part_stride, const void* acc, int64_t begin, int64_t end,
                 void* out, int64_t out_stride, bool wide_out);
};

namespace base {
extern const GemvKernels gemv_kernels;
}
namespace avx2 {
extern const GemvKernels gemv_kernels;
}
namespace avx512 {
extern const GemvKernels gemv_kernels;
}
namespace avx512bf16 {
extern const GemvKernels gemv_kernels;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_GEMV_SIMD_H_
