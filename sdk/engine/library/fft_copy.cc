#include "sdk/engine/library/fft_copy.h"

#include "sdk/engine/library/fft_pass.h"
#include "sdk/engine/library/targets.h"

#define BP_INLINE inline __attribute__((always_inline))

namespace backplane::engine {
namespace {

template <typename T>
BP_INLINE void SplitRow(const T* __restrict x, T* __restrict r, T* __restrict i, int64_t count) {
  for (int64_t l = 0; l < count; ++l) r[l] = x[2 * l], i[l] = x[2 * l + 1];
}

template <typename T>
BP_INLINE void InterleaveRow(const T* __restrict r, const T* __restrict i, T* __restrict y, int64_t count, T scale) {
  for (int64_t l = 0; l < count; ++l) y[2 * l] = r[l] * scale, y[2 * l + 1] = i[l] * scale;
}

// Rows of one register each have code without an inner loop.
template <typename T>
BP_INLINE void SplitRows(const T* x, T* r, T* i, const FftBlock& b) {
  if (b.count == kFftWidth<T>) {
    for (int64_t j = 0; j < b.rows; ++j)
      SplitRow(x + 2 * j * b.interleaved_stride, r + j * b.split_stride, i + j * b.split_stride, kFftWidth<T>);
  } else {
    for (int64_t j = 0; j < b.rows; ++j)
      SplitRow(x + 2 * j * b.interleaved_stride, r + j * b.split_stride, i + j * b.split_stride, b.count);
  }
}

template <typename T>
BP_INLINE void InterleaveRows(const T* r, const T* i, T* y, const FftBlock& b, T scale) {
  if (b.count == kFftWidth<T>) {
    for (int64_t j = 0; j < b.rows; ++j)
      InterleaveRow(r + j * b.split_stride, i + j * b.split_stride, y + 2 * j * b.interleaved_stride, kFftWidth<T>,
                    scale);
  } else {
    for (int64_t j = 0; j < b.rows; ++j)
      InterleaveRow(r + j * b.split_stride, i + j * b.split_stride, y + 2 * j * b.interleaved_stride, b.count, scale);
  }
}

// even part - i w (odd part), of what belongs to k and to half - k
template <typename T>
BP_INLINE void StoreBin(T ur, T ui, T vr, T vi, T c, T s, T scale, T* y) {
  const T er = ur + vr, ei = ui - vi, dr = ur - vr, di = ui + vi;
  y[0] = (er + dr * s + di * c) * scale;
  y[1] = (ei - dr * c + di * s) * scale;
}

template <typename T>
BP_INLINE void StoreBins(const T* __restrict r, const T* __restrict i, const T* __restrict wr, const T* __restrict wi,
                         int64_t half, T* __restrict y, T scale) {
  StoreBin(r[0], i[0], r[0], i[0], wr[0], wi[0], scale, y);
  for (int64_t k = 1; k < half; ++k) StoreBin(r[k], i[k], r[half - k], i[half - k], wr[k], wi[k], scale, y + 2 * k);
  StoreBin(r[0], i[0], r[0], i[0], wr[half], wi[half], scale, y + 2 * half);
}

}  // namespace

BP_TARGETS(void, SplitComplex, (const float* x, float* r, float* i, const FftBlock& block), (x, r, i, block),
           { SplitRows(x, r, i, block); })
BP_TARGETS(void, SplitComplex, (const double* x, double* r, double* i, const FftBlock& block), (x, r, i, block),
           { SplitRows(x, r, i, block); })
BP_TARGETS(void, InterleaveComplex, (const float* r, const float* i, float* y, const FftBlock& block, float scale),
           (r, i, y, block, scale), { InterleaveRows(r, i, y, block, scale); })
BP_TARGETS(void, InterleaveComplex, (const double* r, const double* i, double* y, const FftBlock& block, double scale),
           (r, i, y, block, scale), { InterleaveRows(r, i, y, block, scale); })
BP_TARGETS(void, StoreRealBins,
           (const float* r, const float* i, const float* wr, const float* wi, int64_t half, float* y, float scale),
           (r, i, wr, wi, half, y, scale), { StoreBins(r, i, wr, wi, half, y, scale); })
BP_TARGETS(void, StoreRealBins,
           (const double* r, const double* i, const double* wr, const double* wi, int64_t half, double* y,
            double scale),
           (r, i, wr, wi, half, y, scale), { StoreBins(r, i, wr, wi, half, y, scale); })

}  // namespace backplane::engine

#undef BP_INLINE
