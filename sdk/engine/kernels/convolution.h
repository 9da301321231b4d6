// Convolution as HLO defines it, computed by the first kernel of a ranked list that supports the problem.
//
// A problem names dimensions by their role and gives the strides of each operand, so strides express any dimension
// numbers and any layout. f16, bf16 and f32 accumulate in f32, other types in the element type.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_CONVOLUTION_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_CONVOLUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/engine/kernels/element_type.h"
#include "sdk/engine/kernels/plan.h"

namespace backplane::engine {

struct ConvolutionDim {
  int64_t input = 1, kernel = 1, output = 1;  // extents; `output` must agree with the other fields
  int64_t stride = 1;
  int64_t pad_low = 0, pad_high = 0;  // negative: removes elements
  int64_t lhs_dilation = 1, rhs_dilation = 1;
  bool reversed = false;                                   // window reversal
  int64_t lhs_stride = 0, rhs_stride = 0, out_stride = 0;  // in memory, in elements

  friend bool operator==(const ConvolutionDim&, const ConvolutionDim&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ConvolutionDim& d) {
    return H::combine(std::move(h), d.input, d.kernel, d.output, d.stride, d.pad_low, d.pad_high, d.lhs_stride,
                      d.rhs_stride, d.out_stride);
  }
};

struct ConvolutionProblem {
  ElementType lhs_type = ElementType::kF32;
  ElementType rhs_type = ElementType::kF32;
  ElementType out_type = ElementType::kF32;

  int64_t batch = 1;               // of lhs
  int64_t in_features = 1;         // of lhs
  int64_t kernel_in_features = 1;  // of rhs: in_features / feature_groups
  int64_t out_features = 1;
  int64_t feature_groups = 1;
  int64_t batch_groups = 1;  // output batch is batch / batch_groups

  // Memory strides in elements.
  int64_t lhs_batch_stride = 0, lhs_feature_stride = 0;
  int64_t rhs_in_stride = 0, rhs_out_stride = 0;
  int64_t out_batch_stride = 0, out_feature_stride = 0;

  absl::InlinedVector<ConvolutionDim, 3> dims;  // spatial, outermost first; may be empty

  bool rhs_is_constant = false;

  std::string ToString() const;

  // Equal problems have equal plans.
  friend bool operator==(const ConvolutionProblem&, const ConvolutionProblem&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ConvolutionProblem& p) {
    return H::combine(std::move(h), p.lhs_type, p.rhs_type, p.out_type, p.batch, p.in_features, p.out_features,
                      p.feature_groups, p.rhs_is_constant, p.dims);
  }
};

struct ConvolutionOptions {
  int num_threads = 1;
  absl::string_view only;  // name of a kernel to use, or empty
};

class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  // "onednn_forward", "onednn_backward_weights", "depthwise", "im2col", "reference", ...
  virtual absl::string_view name() const = 0;
  virtual size_t scratch_bytes() const = 0;
  // If not 0, which requires rhs_is_constant, the kernel must be packed once with PrepareRhs. See MatmulPlan.
  virtual size_t packed_rhs_bytes() const { return 0; }
  virtual absl::Status PrepareRhs(const void* rhs, void* packed) const;
  // Whether the epilogue is called for parts of the result as soon as they are written: with the number of an image and
  // a range of positions of the first spatial dimension. Otherwise it is called at the end, for complete images: with
  // batch 0 and a range of indices of the output's batch dimension.
  virtual bool has_row_epilogue() const { return false; }
  // Computes the convolution. Otherwise as MatmulPlan::Execute.
  virtual absl::Status Execute(const void* lhs, const void* rhs, void* out, void* scratch, ThreadPool* pool,
                               const Epilogue* epilogue = nullptr) const = 0;
};

// Returns a plan of the first kernel that supports the problem; the reference kernel supports every valid one. Returns
// InvalidArgument if sizes do not agree. `log`, which may be null, receives the refusals.
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> PlanConvolution(const ConvolutionProblem& problem,
                                                                 const ConvolutionOptions& options = {},
                                                                 RefusalLog* log = nullptr);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_CONVOLUTION_H_
