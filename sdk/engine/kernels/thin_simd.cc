#include "sdk/engine/kernels/thin_simd.h"

#include "sdk/engine/kernels/simd.h"

namespace backplane::engine::BP_SIMD {
namespace {

template <typename T, int kBytes>
struct Part {
  typedef T type __attribute__((vector_size(kBytes)));
  typedef T unaligned __attribute__((vector_size(kBytes), aligned(1), may_alias));
  static constexpr int kLanes = kBytes / sizeof(T);
};

// kMany registers of neighbouring outputs at `at`.
template <typename T, int kBytes, int kMany>
BP_INLINE void Block(const T* const* sources, const T* weights, int64_t taps, T* out, int64_t at) {
  using P = Part<T, kBytes>;
  typename P::type sum[kMany] = {};
  for (int64_t t = 0; t < taps; ++t) {
    const T* source = sources[t] + at;
    const typename P::type weight = typename P::type{} + weights[t];
#pragma GCC unroll 4
    for (int i = 0; i < kMany; ++i)
      sum[i] += *reinterpret_cast<const typename P::unaligned*>(source + i * P::kLanes) * weight;
  }
#pragma GCC unroll 4
  for (int i = 0; i < kMany; ++i) *reinterpret_cast<typename P::unaligned*>(out + at + i * P::kLanes) = sum[i];
}

// The last register overlaps the one before; what is shorter than a register goes through shorter ones.
template <typename T, int kBytes>
BP_INLINE void Sums(const T* const* sources, const T* weights, int64_t taps, T* out, int64_t count) {
  constexpr int kLanes = Part<T, kBytes>::kLanes;
  if (count >= kLanes) {
    int64_t at = 0;
    for (; at + 4 * kLanes <= count; at += 4 * kLanes) Block<T, kBytes, 4>(sources, weights, taps, out, at);
    if (at + 2 * kLanes <= count) {
      Block<T, kBytes, 2>(sources, weights, taps, out, at);
      at += 2 * kLanes;
    }
    for (; at < count; at += kLanes)
      Block<T, kBytes, 1>(sources, weights, taps, out, at + kLanes <= count ? at : count - kLanes);
    return;
  }
  if constexpr (kBytes > 16) {
    Sums<T, kBytes / 2>(sources, weights, taps, out, count);
  } else {
    for (int64_t at = 0; at < count; ++at) {
      T sum = 0;
      for (int64_t t = 0; t < taps; ++t) sum += sources[t][at] * weights[t];
      out[at] = sum;
    }
  }
}

void Floats(const float* const* sources, const float* weights, int64_t taps, float* out, int64_t count) {
  Sums<float, kVectorBytes>(sources, weights, taps, out, count);
}
void Doubles(const double* const* sources, const double* weights, int64_t taps, double* out, int64_t count) {
  Sums<double, kVectorBytes>(sources, weights, taps, out, count);
}

}  // namespace

const ThinKernels thin_kernels = {&Floats, &Doubles};

}  // namespace backplane::engine::BP_SIMD
