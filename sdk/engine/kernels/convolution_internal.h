// Declarations that the convolution kernels share. Private to sdk/engine/kernels.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_CONVOLUTION_INTERNAL_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_CONVOLUTION_INTERNAL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul_internal.h"

namespace backplane::engine {

using ConvolutionFactory = absl::StatusOr<std::unique_ptr<ConvolutionPlan>> (*)(const ConvolutionProblem& problem,
                                                                                int num_threads);

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeDepthwiseConvolution(const ConvolutionProblem& problem,
                                                                          int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeOneDnnForward(const ConvolutionProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeOneDnnBackwardData(const ConvolutionProblem& problem,
                                                                        int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakePhasedConvolution(const ConvolutionProblem& problem,
                                                                       int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeOneDnnBackwardWeights(const ConvolutionProblem& problem,
                                                                           int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeIm2Col(const ConvolutionProblem& problem, int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeThinConvolution(const ConvolutionProblem& problem,
                                                                     int num_threads);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> MakeReferenceConvolution(const ConvolutionProblem& problem,
                                                                          int num_threads);

inline int64_t OutputBatch(const ConvolutionProblem& p) { return p.batch / p.batch_groups; }

inline int64_t KernelPositions(const ConvolutionProblem& p) {
  int64_t n = 1;
  for (const ConvolutionDim& d : p.dims) n *= d.kernel;
  return n;
}
inline int64_t OutputPositions(const ConvolutionProblem& p) {
  int64_t n = 1;
  for (const ConvolutionDim& d : p.dims) n *= d.output;
  return n;
}

// Returns the index into lhs along one dimension for an output position and a kernel position, or -1 in padding or
// between dilated elements. `k` counts in memory order; reversal is applied here.
inline int64_t InputIndex(const ConvolutionDim& d, int64_t output, int64_t k) {
  const int64_t tap = d.reversed ? d.kernel - 1 - k : k;
  const int64_t at = output * d.stride + tap * d.rhs_dilation - d.pad_low;
  if (at < 0 || at % d.lhs_dilation != 0) return -1;
  const int64_t i = at / d.lhs_dilation;
  return i < d.input ? i : -1;
}

inline int64_t CountMultiplies(const ConvolutionProblem& p) {
  return OutputBatch(p) * p.out_features * p.kernel_in_features * KernelPositions(p) * OutputPositions(p);
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_CONVOLUTION_INTERNAL_H_
