// Cholesky factorization and triangular solves of batches of dense row-major matrices.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_LINEAR_ALGEBRA_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_LINEAR_ALGEBRA_H_

#include <cstddef>
#include <cstdint>

#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

enum class MatrixType : uint8_t { kF32, kF64, kC64, kC128 };

// Factorizes a = l l^H (lower) or a = u^H u. Reads only that triangle of the input, and only the real parts of the
// diagonal. The other triangle of the result is zero. If a matrix is not positive definite, its result consists of NaN.
struct CholeskyProblem {
  MatrixType type = MatrixType::kF32;
  int64_t batch = 1, n = 0;
  bool lower = true;
};

// Solves op(a) x = b (left) or x op(a) = b for x. `a` is [batch, n, n]; b and x are [batch, n, others] or, if not left,
// [batch, others, n]. Reads only the triangle named by `lower`; `unit` means a diagonal of ones, which is not read.
struct TriangularProblem {
  MatrixType type = MatrixType::kF32;
  int64_t batch = 1, n = 0, others = 0;
  bool left = true, lower = true, unit = false;
  bool transpose = false, conjugate = false;  // op
};

// Inputs and outputs must not overlap. `workspace` has the bytes that the corresponding function returns for the
// threads of the pool and is 64-byte aligned. The pool may be null: one thread. The functions that end in Microseconds
// estimate the time on one thread.
int64_t ComputeCholeskyWorkspaceBytes(const CholeskyProblem& problem, int num_threads);
void Cholesky(const CholeskyProblem& problem, const void* a, void* out, std::byte* workspace, ThreadPool* pool);
double EstimateCholeskyMicroseconds(const CholeskyProblem& problem);

int64_t ComputeTriangularWorkspaceBytes(const TriangularProblem& problem, int num_threads);
void TriangularSolve(const TriangularProblem& problem, const void* a, const void* b, void* x, std::byte* workspace,
                     ThreadPool* pool);
double EstimateTriangularMicroseconds(const TriangularProblem& problem);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_LINEAR_ALGEBRA_H_
