// One pass of a mixed-radix Stockham transform over split arrays (real parts, imaginary parts).
//
// The pass reads x[(p + m k) s + q] and writes y[(radix p + k) s + q] = w(p k) * DFT over k of x, for p < m, q < s,
// with w(j) = exp(-2 pi i j / (radix m)). Passes with s = lanes, lanes * r0, lanes * r0 * r1, ... make a transform of
// `lanes` sequences side by side, in order. Arrays may be read one register (kFftPad numbers) past their end.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_FFT_PASS_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_FFT_PASS_H_

#include <cstdint>

namespace backplane::engine {

constexpr int64_t kFftPad = 16;
constexpr int kMaxRadix = 23;

template <typename T>
constexpr int64_t kFftWidth = 64 / static_cast<int64_t>(sizeof(T));

template <typename T>
struct FftPass {
  int radix = 2;
  int64_t m = 1, s = 1;
  // w(p k) at [(k - 1) * m + p]; when s < kFftWidth at [(k - 1) * m * s + p s + q], kFftPad numbers longer. Unused for
  // m = 1.
  const T* wr = nullptr;
  const T* wi = nullptr;
  // For radices without specialized code: cos and -sin of 2 pi j / radix.
  const T* root_r = nullptr;
  const T* root_i = nullptr;

  // Returns the number of units of work.
  int64_t units() const { return s < kFftWidth<T> ? m : m * ((s + kFftWidth<T> - 1) / kFftWidth<T>); }
};

// Runs units [begin, end) of the pass.
void RunFftPass(const FftPass<float>& pass, const float* xr, const float* xi, float* yr, float* yi, int64_t begin,
                int64_t end);
void RunFftPass(const FftPass<double>& pass, const double* xr, const double* xi, double* yr, double* yi, int64_t begin,
                int64_t end);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_FFT_PASS_H_
