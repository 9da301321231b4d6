// Matrix product of plain arrays, for dot and convolution of the evaluator.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_GEMM_H_
#define BACKPLANE_CORE_OPS_FAMILIES_GEMM_H_

#include <cstdint>

#include "core/types/primitive_type.h"

namespace backplane {

// c[i][j] += sum over k of a[i][k] * b[k][j]; rows lie lda, ldb, ldc elements apart.
// T: float, double, int64_t (wrapping), std::complex<float>, std::complex<double>.
template <typename T>
void Gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc);

// The type in which products of `a` and `b` are summed for a result of type `result`: f32, f64, s64, c64 or c128.
PrimitiveType AccumulationType(PrimitiveType a, PrimitiveType b, PrimitiveType result);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_GEMM_H_
