// The matrix instructions of GPUs: a wave multiplies a matrix of rows() x k by one of k x columns() and adds the
// product to sums that its lanes keep in registers.
//
// How the matrices lie in the registers of a wave (AMD's ISA manuals of CDNA3 and RDNA3, NVIDIA's of PTX):
//   MFMA  64 lanes, 16 x 16 sums. Lane l holds elements k * (l / 16) / 4 ... of row l % 16 of the left operand, and of
//         column l % 16 of the right one: k / 4 of them. Sum r of lane l is that of row 4 * (l / 16) + r, of f64
//         4 * r + l / 16, column l % 16.
//   WMMA  32 lanes, 16 x 16 sums. Lane l holds all k elements of row l % 16, and of column l % 16. Sum r of lane l is
//         that of row 2 * r + l / 16, column l % 16.
//   MMA   32 lanes, 16 x 8 sums: the function gpu.multiply of gpu_ir.h, which has the layout.
//   Group 128 lanes, which multiply whole slices in shared memory: the function gpu.group.multiply. Its sums
//         are counted as steps of 64 x 8, of which a lane has those that it has of MMA: lane l in rows l / 32 * 16 and
//         following.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_STEP_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_STEP_H_

#include <cstdint>

#include "core/types/primitive_type.h"
#include "plugins/hip/lowering/lowering.h"

namespace backplane::hip {

enum class MatrixFamily : uint8_t { kMfma, kWmma, kMma, kGroup };

struct MatrixStep {
  // LLVM's name of the intrinsic, without types; for MMA the name of the function; for groups TYPE in its name.
  const char* instruction;
  PrimitiveType operand, sum;
  MatrixFamily family;
  int k;                         // elements of a row of the left operand
  bool rounds_operands = false;  // f32 to tf32

  int wave_size() const {
    if (family == MatrixFamily::kGroup) return 128;
    return family == MatrixFamily::kMfma ? 64 : 32;
  }
  int rows() const { return family == MatrixFamily::kGroup ? 64 : 16; }
  int columns() const { return is_nvidia() ? 8 : 16; }
  bool is_nvidia() const { return family == MatrixFamily::kMma || family == MatrixFamily::kGroup; }
  // Return how many elements each lane holds. operand_elements is for AMD's families only.
  int operand_elements() const { return family == MatrixFamily::kWmma ? k : k / 4; }
  int sum_elements() const { return family == MatrixFamily::kWmma ? 8 : 4; }
};

// Returns the step that multiplies elements of type `operand` and keeps sums of type `sum`, or null if the target has
// none. With `permits_tf32`, operands of f32 may be rounded to the 10 bits of mantissa that tf32 has.
const MatrixStep* FindMatrixStep(const GpuTarget& target, PrimitiveType operand, PrimitiveType sum, bool permits_tf32);
// Returns the step of groups that multiplies the same types as a step of MMA; null if the target has none.
const MatrixStep* FindGroupStep(const GpuTarget& target, const MatrixStep& step);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_MATRIX_STEP_H_
