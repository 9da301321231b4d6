// The inner loops of our own matrix multiplications, for three vector widths. Private to matmul_blocked.cc and
// matmul_panels.cc.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_GEMM_SIMD_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_GEMM_SIMD_H_

#include <stdint.h>

#include "sdk/engine/kernels/element_type.h"

namespace backplane::engine {

// Computes c[i, j] (+)= sum over k of a[i * am + k * ak] * b[k * bk + j] for `rows` rows (1 to the tile's height) and
// one tile width of columns; c has row stride cm. All in the accumulator type.
using GemmTileFn = void (*)(int64_t rows, int64_t k, const void* a, int64_t am, int64_t ak, const void* b, int64_t bk,
                            void* c, int64_t cm, bool accumulate);

struct GemmTile {
  int rows;    // tallest tile
  int narrow;  // columns of the narrow tile: one register
  int wide;    // columns of the wide tile: two registers
  GemmTileFn run_narrow;
  GemmTileFn run_wide;
};

struct GemmKernels {
  GemmTile f32, f64, s32, s64;
  // Packs a block: dst[i * di + j * dj] = src[i * si + j * sj] for i < rows, j < cols. Converts from type `from` to the
  // accumulator type `to`: f32, f64, s32 or s64. One of dj and di is 1 in all uses.
  void (*convert)(ElementType from, const void* src, int64_t si, int64_t sj, ElementType to, void* dst, int64_t di,
                  int64_t dj, int64_t rows, int64_t cols);
  // Packs whole wide tiles of columns: row x of panel p, dst[p * panel_step + x * wide], receives the `wide` elements
  // at src[x * src_stride + p * wide], for x < depth and p < panels. From f32, bf16 and f16 to f32, or from f64 to f64.
  void (*pack_panels)(ElementType from, const void* src, int64_t src_stride, void* dst, int64_t panel_step,
                      int64_t depth, int64_t panels);
  // Converts rows of `cols` consecutive elements, with the same types.
  void (*pack_rows)(ElementType from, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
                    int64_t cols);
  // Unpacks a block: converts from the accumulator type, with column stride 1, to any type but complex.
  void (*convert_out)(ElementType from, const void* src, int64_t si, ElementType to, void* dst, int64_t di, int64_t dj,
                      int64_t rows, int64_t cols);
};

namespace base {
extern const GemmKernels gemm_kernels;
}
namespace avx2 {
extern const GemmKernels gemm_kernels;
}
namespace avx512 {
extern const GemmKernels gemm_kernels;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_GEMM_SIMD_H_
