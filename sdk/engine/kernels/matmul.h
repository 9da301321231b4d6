// Matrix multiplication, out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], through a ranked list of kernels.
//
// Any stride is allowed, so a transposed operand is a problem with swapped strides, and a broadcast batch dimension one
// with stride zero. Products and sums are in f32 for f16, bf16 and f32, in the element type for f64 and integers (of
// the output type when that is wider), and the result is rounded once to `out_type`.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

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

  // The right operand has the same contents in every execution (a constant): Prepare() may pack it once.
  bool rhs_is_constant = false;

  // Dense row-major operands without batch: strides filled in.
  static MatmulProblem Dense(ElementType type, int64_t m, int64_t n, int64_t k, bool transpose_lhs = false,
                             bool transpose_rhs = false);
  // "f32[8,128]x[128,64]" for logs.
  std::string ToString() const;
};

struct MatmulOptions {
  int num_threads = 1;     // of the pool that Execute will get; sizes the scratch space
  absl::string_view only;  // name of a kernel to use, or empty; for tests and measurements
};

class MatmulPlan {
 public:
  virtual ~MatmulPlan() = default;

  // "onednn_packed", "gemv", "small", "reference", ...
  virtual absl::string_view name() const = 0;

  // Bytes that Execute needs at `scratch`, aligned to 64; contents do not matter and are not kept.
  virtual size_t scratch_bytes() const = 0;

  // When the problem said rhs_is_constant and this is not zero: Prepare(rhs, packed) fills a buffer of so many bytes,
  // aligned to 64, once; Execute then gets `packed` in place of rhs.
  virtual size_t packed_rhs_bytes() const { return 0; }
  virtual absl::Status PrepareRhs(const void* rhs, void* packed) const;

  // `pool` may be nullptr (one thread). No two operands overlap the output. `epilogue` may be null; its rows are rows
  // of m within one flattened batch index. Thread-safe: different calls need different scratch.
  virtual absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                               const Epilogue* epilogue = nullptr) const = 0;
};

// The first kernel of the list that accepts. Negative sizes and mismatched batch lists are InvalidArgument; everything
// else is accepted by the reference at the latest. `log` (may be null) receives the refusals.
absl::StatusOr<std::unique_ptr<MatmulPlan>> PlanMatmul(const MatmulProblem& problem, const MatmulOptions& options = {},
                                                       RefusalLog* log = nullptr);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_MATMUL_H_
