// Matrix products of plain arrays, for dot and convolution in the evaluator.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_GEMM_H_
#define BACKPLANE_CORE_OPS_FAMILIES_GEMM_H_

#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/types/primitive_type.h"

namespace backplane {

// The products and sums that Gemm uses: integers wrap around, and complex numbers are multiplied by parts, without the
// special handling of infinities of std::complex.
template <typename T>
inline T Times(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return a * b;
  } else {
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
}
template <typename T>
inline T Plus(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

// Computes c[i][j] += sum over k of a[i][k] * b[k][j]. lda, ldb and ldc are the distances between rows, in elements. T
// is float, double, int64_t (wrapping), std::complex<float> or std::complex<double>.
template <typename T>
void Gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc);

// Returns the type in which products of `a` and `b` are summed for a result of type `result`: f32, f64, s64, c64 or
// c128.
PrimitiveType SelectAccumulationType(PrimitiveType a, PrimitiveType b, PrimitiveType result);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_GEMM_H_
