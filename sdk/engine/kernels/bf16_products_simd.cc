#include "sdk/engine/kernels/bf16_products.h"
#include "sdk/engine/kernels/simd.h"

namespace backplane::engine::BP_SIMD {
namespace {

constexpr int kSums = 16;  // enough for the latency of two units

// Hides from the compiler that all factors are the same.
template <typename V>
BP_INLINE void Hide(V& v) {
  __asm__ volatile("" : "+v"(v));
}

template <typename V, typename Multiply>
BP_INLINE float RunProducts(int64_t count, V x, Multiply multiply) {
  __m512 sums[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t n = 0; n < count; n += kSums) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = multiply(sums[i], x);
      Hide(sums[i]);
    }
  }
  __m512 total = sums[0];
#pragma GCC unroll 16
  for (int i = 1; i < kSums; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_reduce_add_ps(total);
}

}  // namespace

float RunF32Products(int64_t count) {
  return RunProducts(
      count, _mm512_setzero_ps(), [](__m512 sum, __m512 x) __attribute__((always_inline)) {
        Hide(x);
        return _mm512_fmadd_ps(x, x, sum);
      });
}

float RunBf16Products(int64_t count) {
  return RunProducts(
      count, _mm512_setzero_si512(), [](__m512 sum, __m512i x) __attribute__((always_inline)) {
        Hide(x);
        return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)x);
      });
}

}  // namespace backplane::engine::BP_SIMD
