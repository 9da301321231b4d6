// Transforms of short lines, a register of lines side by side: the method and the roundings of the definition in core,
// with real transforms in real arithmetic.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_FFT_SHORT_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_FFT_SHORT_H_

#include <cstdint>
#include <memory>

namespace backplane::engine {

template <typename T>
class ShortFft {
 public:
  // Lines of n numbers, real or complex.
  static std::unique_ptr<ShortFft<T>> Create(int64_t n, bool real);
  virtual ~ShortFft() = default;

  // Rows of 64 bytes, aligned to 64, one for each number of a line, or two, real and imaginary part. The spectrum of
  // real lines is packed as core/ops/families/fft_real.h says. In place; `work` is as large. Not scaled.
  virtual void Run(T* rows, T* work, bool forward) const = 0;
};

extern template class ShortFft<float>;
extern template class ShortFft<double>;

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_FFT_SHORT_H_
