// Fourier transforms of short lines, one register of lines at a time. Uses the method and the rounding of the
// definition in core/ops/families, with real transforms in real arithmetic.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_FFT_SHORT_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_FFT_SHORT_H_

#include <cstdint>
#include <memory>

namespace backplane::engine {

template <typename T>
class ShortFft {
 public:
  // Creates a transform of lines of n real or complex numbers.
  static std::unique_ptr<ShortFft<T>> Create(int64_t n, bool real);
  virtual ~ShortFft() = default;

  // Transforms `rows` in place, without scaling. `rows` consists of rows of 64 bytes, aligned to 64: one for each real
  // number of a line, or two for each complex number, its real and imaginary parts. The spectrum of real lines is
  // packed as described in core/ops/families/fft_real.h. `work` has the size of `rows`.
  virtual void Run(T* rows, T* work, bool forward) const = 0;
};

extern template class ShortFft<float>;
extern template class ShortFft<double>;

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_FFT_SHORT_H_
