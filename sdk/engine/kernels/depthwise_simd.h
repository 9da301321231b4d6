// Depthwise convolution of one output row, for three vector widths. Private to convolution_depthwise.cc.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_DEPTHWISE_SIMD_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_DEPTHWISE_SIMD_H_

#include <stdint.h>

namespace backplane::engine {

enum class DepthwiseType { kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 3 };

// Channels are contiguous everywhere. Rows are given by address: lhs_rows[k] is the input row under kernel row k, or
// null in padding. Distances in elements.
struct DepthwiseRow {
  const void* const* lhs_rows;
  const void* kernel;  // as floats of the accumulator type, [kernel_rows][kernel_columns][channels]
  void* out;
  int64_t kernel_rows, kernel_columns, channels;
  int64_t in_columns, out_columns;
  int64_t lhs_column_stride, out_column_stride;
  int64_t stride, dilation, pad_low;  // along the row
};

struct DepthwiseKernels {
  void (*row)(DepthwiseType type, const DepthwiseRow& row);
  // Converts `count` values to the accumulator type: f64 for f64, f32 for the other types.
  void (*widen)(DepthwiseType type, const void* from, int64_t stride, void* to, int64_t count);
};

namespace base {
extern const DepthwiseKernels depthwise_kernels;
}
namespace avx2 {
extern const DepthwiseKernels depthwise_kernels;
}
namespace avx512 {
extern const DepthwiseKernels depthwise_kernels;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_DEPTHWISE_SIMD_H_
