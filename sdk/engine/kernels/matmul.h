// Matrix multiplication, out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], computed by the first kernel of a
// ranked list that supports the problem.
//
// Any stride is allowed: a transposed operand has swapped strides, and a broadcast batch dimension has stride zero.
// f16, bf16 and f32 accumulate in f32. f64 and integers accumulate in the element type, or in the output type if that
// is wider. The result is rounded once to `out_type`.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/engine/kernels/element_type.h"
#include "sdk/engine/kernels/plan.h"

namespace backplane::engine {

struct MatmulProblem {
  ElementType lhs_type = ElementType::kF32;
  ElementType rhs_type = ElementType::kF32;
  ElementType out_type = ElementType::kF32;
  int64_t m = 1, n = 1, k = 1;
  // Strides in elements.
  int64_t lhs_m_stride = 0, lhs_k_stride = 1;
  int64_t rhs_k_stride = 0, rhs_n_stride = 1;
  int64_t out_m_stride = 0, out_n_stride = 1;
  // Batch dimensions, outermost first; the same count in all four.
  absl::InlinedVector<int64_t, 4> batch;
  absl::InlinedVector<int64_t, 4> lhs_batch_strides, rhs_batch_strides, out_batch_strides;

  // The right operand is a constant, with the same contents in every execution. The plan may then require a packed copy
  // of it (MatmulPlan::PrepareRhs).
  bool rhs_is_constant = false;

  // Returns a problem with dense row-major operands without batch dimensions.
  static MatmulProblem Dense(ElementType type, int64_t m, int64_t n, int64_t k, bool transpose_lhs = false,
                             bool transpose_rhs = false);
  // Returns a text for logs, such as "f32[8,128]x[128,64]".
  std::string ToString() const;

  // Equal problems have equal plans.
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const MatmulProblem& p) {
    return H::combine(std::move(h), p.lhs_type, p.rhs_type, p.out_type, p.m, p.n, p.k, p.lhs_m_stride, p.rhs_k_stride,
                      p.out_m_stride, p.batch, p.rhs_is_constant);
  }
};

struct MatmulOptions {
  int num_threads = 1;     // threads of the pool passed to Execute; determines the size of the scratch memory
  absl::string_view only;  // name of a kernel to use, or empty; for tests and measurements
};

class MatmulPlan {
 public:
  virtual ~MatmulPlan() = default;

  // "onednn_packed", "gemv", "small", "reference", ...
  virtual absl::string_view name() const = 0;

  // Returns the bytes of scratch memory that Execute needs, aligned to 64. Its contents are not used and not kept.
  virtual size_t scratch_bytes() const = 0;

  // Returns the size of the packed right operand in bytes; 0: it is not packed. If it is not 0, which requires
  // rhs_is_constant, the caller must call PrepareRhs(rhs, packed) once with a buffer of that size, aligned to 64, and
  // pass `packed` to Execute in place of rhs.
  virtual size_t packed_rhs_bytes() const { return 0; }
  virtual absl::Status PrepareRhs(const void* rhs, void* packed) const;

  // Multiplies. `pool` may be nullptr: one thread. The output must not overlap an operand. `epilogue` may be null; it
  // receives a flattened batch index and a range of rows of m. Thread-safe, with different scratch memory for each
  // concurrent call.
  virtual absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                               const Epilogue* epilogue = nullptr) const = 0;
};

// Returns a plan of the first kernel that supports the problem; the reference kernel supports every valid one. Returns
// InvalidArgument for negative sizes and batch lists of different lengths. `log`, which may be null, receives the
// refusals.
absl::StatusOr<std::unique_ptr<MatmulPlan>> PlanMatmul(const MatmulProblem& problem, const MatmulOptions& options = {},
                                                       RefusalLog* log = nullptr);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_H_
