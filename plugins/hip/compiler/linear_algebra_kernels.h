// Cholesky factorization and triangular solve of small matrices. SplitLinearAlgebra leaves no others.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_LINEAR_ALGEBRA_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_LINEAR_ALGEBRA_KERNELS_H_

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// The largest n of an n x n matrix that a block keeps in shared memory.
int64_t LargestMatrix(PrimitiveType type);

// Cholesky: a block factors a matrix. Unimplemented for larger matrices and arrays that are not dense.
absl::StatusOr<KernelPlan> PlanCholesky(const Instruction& cholesky);
// A block loads a triangle into shared memory, and each of its threads solves for one column of the right-hand side, or
// for one row if the unknown is on the left.
absl::StatusOr<KernelPlan> PlanTriangularSolve(const Instruction& solve);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_LINEAR_ALGEBRA_KERNELS_H_
