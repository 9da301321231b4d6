// The matrix instructions of GPUs: a wave multiplies a 16 x k by a k x 16 matrix and adds the product to sums that its
// lanes keep in registers.
//
// How the matrices lie in the registers of a wave (AMD's ISA manuals of CDNA3 and RDNA3):
//   MFMA  64 lanes. Lane l holds elements k * (l / 16) / 4 ... of row l % 16 of the left operand, and of column l % 16
//         of the right one: k / 4 of them. Sum r of lane l is that of row 4 * (l / 16) + r, of f64 4 * r + l / 16,
//         column l % 16.
//   WMMA  32 lanes. Lane l holds all k elements of row l % 16, and of column l % 16. Sum r of lane l is that of row
//         2 * r + l / 16, column l % 16.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_STEP_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_STEP_H_

#include "core/types/primitive_type.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

struct MatrixStep {
  const char* instruction;  // LLVM's name of the intrinsic, without types
  PrimitiveType operand, sum;
  bool is_wmma;
  int k;  // elements of a row of the left operand

  int wave_size() const { return is_wmma ? 32 : 64; }
  int operand_elements() const { return is_wmma ? k : k / 4; }  // in each lane
  int sum_elements() const { return is_wmma ? 8 : 4; }
};

// The step that multiplies elements of the type and keeps sums of the other; null where the target has none.
const MatrixStep* FindMatrixStep(const GpuTarget& target, PrimitiveType operand, PrimitiveType sum);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_STEP_H_
