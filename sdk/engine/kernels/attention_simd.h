// The elementwise parts of attention for several vector widths. Private to attention.cc.
//
// A block of scores has a row for each key and a column (a lane) for each query. `lanes` is the width of a tile of
// gemm_simd.h, narrow or wide. Rows lie `lanes` elements apart.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_ATTENTION_SIMD_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_ATTENTION_SIMD_H_

#include <stdint.h>

#include "sdk/engine/kernels/element_type.h"

namespace backplane::engine {

struct AttentionKernels {
  // The first three work on `count` elements, a multiple of `lanes`.
  void (*scale)(float* scores, int64_t count, float factor);
  void (*add)(float* scores, const float* terms, int64_t count);
  // Writes `value` where (mask != 0) is not `keep`.
  void (*select)(float* scores, const float* mask, int64_t count, bool keep, float value);
  // Round to f16 or bf16 and back.
  void (*round_f16)(float* scores, int64_t count);
  void (*round_bf16)(float* scores, int64_t count);
  // Writes `value` where key - query is outside of [low, high]. Row r is key `first_key` + r, lane c is query
  // `first_query` + c.
  void (*band)(float* scores, int64_t keys, int64_t lanes, int64_t first_key, int64_t first_query, int64_t low,
               int64_t high, float value);
  // largest[c] becomes the maximum of itself and of column c. A NaN stays.
  void (*max)(const float* scores, int64_t keys, int64_t lanes, float* largest);
  // Replaces the scores by exp(score - largest[c]) and adds them to sum[c].
  void (*exp_sum)(float* scores, int64_t keys, int64_t lanes, const float* largest, float* sum);
  // Multiplies column c by factors[c].
  void (*multiply)(float* scores, int64_t keys, int64_t lanes, const float* factors);
  // to[c * lanes + r] = from[r * stride + c] for r < rows and c < cols; zero for the other r. `lanes` may be any
  // multiple of the narrow width. From pred (as numbers), f32, bf16 or f16.
  void (*transpose_in)(ElementType type, const void* from, int64_t stride, int64_t rows, int64_t cols, float* to,
                       int64_t lanes);
  // to[r * stride + c] = from[c * lanes + r] for r < rows and c < cols.
  void (*transpose_out)(const float* from, int64_t lanes, float* to, int64_t stride, int64_t rows, int64_t cols);
  // Whether all elements of some rows are finite. `cols` consecutive elements in each.
  bool (*all_finite)(const float* values, int64_t stride, int64_t rows, int64_t cols);
};

namespace base {
extern const AttentionKernels attention_kernels;
}
namespace avx2 {
extern const AttentionKernels attention_kernels;
}
namespace avx512 {
extern const AttentionKernels attention_kernels;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_ATTENTION_SIMD_H_
