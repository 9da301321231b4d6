// Declarations that the matrix multiplication kernels share. Private to sdk/engine/kernels.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_INTERNAL_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_INTERNAL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/types/integer_division.h"
#include "sdk/engine/kernels/matmul.h"

namespace backplane::engine {

// One entry of the ranked list. Creates a plan, or returns the reason why the kernel does not support the problem.
using MatmulFactory = absl::StatusOr<std::unique_ptr<MatmulPlan>> (*)(const MatmulProblem& problem, int num_threads);

absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeGemvMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeSmallComplexMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeSmallMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeOneDnnMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeOneDnnPlainMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeOneDnnSgemm(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeBlockedMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakePanelMatmul(const MatmulProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<MatmulPlan>> MakeReferenceMatmul(const MatmulProblem& problem, int num_threads);

inline int64_t BatchCount(const MatmulProblem& p) {
  int64_t count = 1;
  for (int64_t b : p.batch) count *= b;
  return count;
}

struct BatchOffsets {
  int64_t lhs = 0, rhs = 0, out = 0;  // elements
};

inline BatchOffsets ComputeBatchOffsets(const MatmulProblem& p, int64_t index) {
  BatchOffsets o;
  for (int d = static_cast<int>(p.batch.size()) - 1; d >= 0; --d) {
    const int64_t i = index % p.batch[d];
    index /= p.batch[d];
    o.lhs += i * p.lhs_batch_strides[d];
    o.rhs += i * p.rhs_batch_strides[d];
    o.out += i * p.out_batch_strides[d];
  }
  return o;
}

inline const char* At(const void* base, int64_t elements, ElementType type) {
  return static_cast<const char*>(base) + elements * static_cast<int64_t>(ElementBytes(type));
}
inline char* At(void* base, int64_t elements, ElementType type) {
  return static_cast<char*>(base) + elements * static_cast<int64_t>(ElementBytes(type));
}

// With fewer multiplications than this, distributing the work over threads costs more than it saves.
constexpr int64_t kMultipliesWorthSplitting = 128 * 1024;

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_INTERNAL_H_
