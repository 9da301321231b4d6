// Copies between arrays of complex numbers and the split arrays of a transform, and the last step of a real transform.
// For float and double, in registers as wide as the host's.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_FFT_COPY_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_FFT_COPY_H_

#include <cstdint>

namespace backplane::engine {

// A block of complex numbers: `rows` rows of `count` neighbours. Strides, from row to row, are in complex numbers for
// the interleaved array and in real ones for the split arrays.
struct FftBlock {
  int64_t rows = 1, count = 1, interleaved_stride = 0, split_stride = 0;
};

void SplitComplex(const float* x, float* r, float* i, const FftBlock& block);
void SplitComplex(const double* x, double* r, double* i, const FftBlock& block);

// Multiplies by `scale`.
void InterleaveComplex(const float* r, const float* i, float* y, const FftBlock& block, float scale);
void InterleaveComplex(const double* r, const double* i, double* y, const FftBlock& block, double scale);

// r and i are the transform of `half` complex numbers made of the even and odd elements of a real line. Writes half + 1
// complex numbers, the transform of the real line times 2 * scale. w = exp(-2 pi i k / (2 half)) for k <= half.
void StoreRealBins(const float* r, const float* i, const float* wr, const float* wi, int64_t half, float* y,
                   float scale);
void StoreRealBins(const double* r, const double* i, const double* wr, const double* wi, int64_t half, double* y,
                   double scale);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_FFT_COPY_H_
