// Cholesky factorization and triangular solve of small matrices. SplitLinearAlgebra leaves no others.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_LINEAR_ALGEBRA_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_LINEAR_ALGEBRA_KERNELS_H_

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// Returns the largest n for which a block keeps an n x n matrix in shared memory.
int64_t FindLargestMatrix(PrimitiveType type);

// Return Unimplemented for larger matrices and for arrays that are not dense. In a Cholesky factorization a block
// factors a matrix. In a triangular solve a block loads a triangle into shared memory, and each of its threads solves
// for one column of the right-hand side, or for one row if the unknown is on the left.
absl::StatusOr<KernelPlan> PlanCholesky(const Instruction& cholesky);
absl::StatusOr<KernelPlan> PlanTriangularSolve(const Instruction& solve);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_LINEAR_ALGEBRA_KERNELS_H_
