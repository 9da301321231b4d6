#include "core/ops/families/gemm.h"

#include <algorithm>
#include <complex>

namespace backplane {
namespace {

template <typename T>
void Row1(int64_t n, int64_t k, const T* a, const T* b, int64_t ldb, T* __restrict c) {
  for (int64_t p = 0; p < k; ++p) {
    const T x = a[p];
    const T* row = b + p * ldb;
    for (int64_t j = 0; j < n; ++j) c[j] = Plus(c[j], Times(x, row[j]));
  }
}

// Four rows at once: each element of b that is loaded serves four products.
template <typename T>
void Row4(int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* __restrict c0, T* __restrict c1,
          T* __restrict c2, T* __restrict c3) {
  for (int64_t p = 0; p < k; ++p) {
    const T x0 = a[p], x1 = a[lda + p], x2 = a[2 * lda + p], x3 = a[3 * lda + p];
    const T* row = b + p * ldb;
    for (int64_t j = 0; j < n; ++j) {
      const T y = row[j];
      c0[j] = Plus(c0[j], Times(x0, y));
      c1[j] = Plus(c1[j], Times(x1, y));
      c2[j] = Plus(c2[j], Times(x2, y));
      c3[j] = Plus(c3[j], Times(x3, y));
    }
  }
}

}  // namespace

template <typename T>
void Gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  if (n == 1 && ldb == 1) {  // rows of a with one column: eight partial sums
    for (int64_t i = 0; i < m; ++i) {
      const T* row = a + i * lda;
      T part[8] = {};
      int64_t p = 0;
      for (; p + 8 <= k; p += 8) {
        for (int w = 0; w < 8; ++w) part[w] = Plus(part[w], Times(row[p + w], b[p + w]));
      }
      T sum = Plus(Plus(Plus(part[0], part[4]), Plus(part[1], part[5])),
                   Plus(Plus(part[2], part[6]), Plus(part[3], part[7])));
      for (; p < k; ++p) sum = Plus(sum, Times(row[p], b[p]));
      c[i * ldc] = Plus(c[i * ldc], sum);
    }
    return;
  }
  // A panel of b of this size stays in the second-level cache.
  constexpr int64_t kDepth = 128, kColumns = 256;
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      const T* panel = b + p * ldb + j;
      int64_t i = 0;
      for (; i + 4 <= m; i += 4) {
        T* row = c + i * ldc + j;
        Row4(columns, depth, a + i * lda + p, lda, panel, ldb, row, row + ldc, row + 2 * ldc, row + 3 * ldc);
      }
      for (; i < m; ++i) Row1(columns, depth, a + i * lda + p, panel, ldb, c + i * ldc + j);
    }
  }
}

#define BACKPLANE_GEMM(T) \
  template void Gemm<T>(int64_t, int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t);
BACKPLANE_GEMM(float)
BACKPLANE_GEMM(double)
BACKPLANE_GEMM(int64_t)
BACKPLANE_GEMM(std::complex<float>)
BACKPLANE_GEMM(std::complex<double>)
#undef BACKPLANE_GEMM

PrimitiveType SelectAccumulationType(PrimitiveType a, PrimitiveType b, PrimitiveType result) {
  bool is_complex = false, is_float = false, is_double = false;
  for (PrimitiveType t : {a, b, result}) {
    is_complex = is_complex || IsComplex(t);
    is_float = is_float || IsFloat(t);
    is_double = is_double || t == PrimitiveType::kF64 || t == PrimitiveType::kC128;
  }
  if (is_complex) return is_double ? PrimitiveType::kC128 : PrimitiveType::kC64;
  if (is_float) return is_double ? PrimitiveType::kF64 : PrimitiveType::kF32;
  return PrimitiveType::kS64;
}

}  // namespace backplane
