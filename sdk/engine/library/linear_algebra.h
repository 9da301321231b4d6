// Cholesky factorization and triangular solves of batches of dense row-major matrices.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_LINEAR_ALGEBRA_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_LINEAR_ALGEBRA_H_

#include <cstddef>
#include <cstdint>

#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

enum class MatrixType : uint8_t { kF32, kF64, kC64, kC128 };

// a = l l^H (lower) or a = u^H u. Only that triangle of the input is read, of the diagonal the real parts; the other
// triangle of the result is zero. A matrix that is not positive definite gives NaNs throughout.
struct CholeskyProblem {
  MatrixType type = MatrixType::kF32;
  int64_t batch = 1, n = 0;
  bool lower = true;
};

// op(a) x = b (left) or x op(a) = b. a is [batch, n, n]; b and x are [batch, n, others], right: [batch, others, n].
// Only the triangle named by `lower` is read, with `unit` without its diagonal.
struct TriangularProblem {
  MatrixType type = MatrixType::kF32;
  int64_t batch = 1, n = 0, others = 0;
  bool left = true, lower = true, unit = false;
  bool transpose = false, conjugate = false;  // op
};

// Inputs and outputs do not overlap. 64-byte aligned workspace; the pool may be null.
int64_t CholeskyWorkspaceBytes(const CholeskyProblem& problem, int num_threads);
void Cholesky(const CholeskyProblem& problem, const void* a, void* out, std::byte* workspace, ThreadPool* pool);
double CholeskyMicroseconds(const CholeskyProblem& problem);

int64_t TriangularWorkspaceBytes(const TriangularProblem& problem, int num_threads);
void TriangularSolve(const TriangularProblem& problem, const void* a, const void* b, void* x, std::byte* workspace,
                     ThreadPool* pool);
double TriangularMicroseconds(const TriangularProblem& problem);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_LINEAR_ALGEBRA_H_
