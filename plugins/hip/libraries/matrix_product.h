// A product of matrices as the libraries of GPU makers take it: column-major, with one stride for the batch.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_MATRIX_PRODUCT_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_MATRIX_PRODUCT_H_

#include <cstdint>
#include <string>

#include "core/types/primitive_type.h"

namespace backplane::hip {

// D = op(A) * op(B) for each matrix of the batch. D has m rows and n columns; element (i, j) of a stored matrix is at
// i + j * leading. op transposes or does nothing. Sizes, strides and leading dimensions count elements and fit 32 bits,
// except strides and `batch`.
struct MatrixProduct {
  struct Factor {
    int argument = 0;  // 0: the left operand of the kernel whose place the product takes, 1: the right one
    bool transposed = false;
    int64_t leading = 1, stride = 0;
  };
  PrimitiveType type{}, out_type{};  // of both operands, and of the result
  PrimitiveType sum_type{};          // of the sums
  bool rounds_to_tf32 = false;       // whether operands of f32 may be rounded to tf32
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Factor a, b;
  int64_t leading = 1, stride = 0;  // of D
  // Elements of the arrays of the left operand, the right operand and the result.
  int64_t lhs_elements = 0, rhs_elements = 0, out_elements = 0;

  // Returns the product in a few words, which differ for products that differ: "f16 -> f32, 64 x 32 x 16, ...".
  std::string ToString() const;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_MATRIX_PRODUCT_H_
