#include "sdk/engine/library/fft_short.h"

#include "core/ops/families/fft_passes.h"
#include "core/ops/families/fft_real.h"

namespace backplane::engine {
namespace {

template <typename T>
struct Register {
  typedef T type __attribute__((vector_size(64)));  // the compiler lets a vector alias its elements
};

template <typename T>
class RealLines : public ShortFft<T> {
 public:
  explicit RealLines(int64_t n) : line_(n) {}
  void Run(T* rows, T* work, bool forward) const override {
    using V = typename Register<T>::type;
    if (forward) {
      line_.Forward(reinterpret_cast<V*>(rows), reinterpret_cast<V*>(work));
    } else {
      line_.Backward(reinterpret_cast<V*>(rows), reinterpret_cast<V*>(work));
    }
  }

 private:
  fft::RealLine<typename Register<T>::type, T> line_;
};

template <typename T>
class ComplexLines : public ShortFft<T> {
 public:
  explicit ComplexLines(int64_t n) : line_(n) {}
  void Run(T* rows, T* work, bool forward) const override {
    using N = fft::Number<typename Register<T>::type>;
    line_.Run(reinterpret_cast<N*>(rows), reinterpret_cast<N*>(work), forward);
  }

 private:
  fft::ComplexLine<typename Register<T>::type, T> line_;
};

}  // namespace

template <typename T>
std::unique_ptr<ShortFft<T>> ShortFft<T>::Create(int64_t n, bool real) {
  if (real) return std::make_unique<RealLines<T>>(n);
  return std::make_unique<ComplexLines<T>>(n);
}

template class ShortFft<float>;
template class ShortFft<double>;

}  // namespace backplane::engine
