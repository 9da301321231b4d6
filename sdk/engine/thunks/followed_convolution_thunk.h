// Runs a convolution and the kernel that reads its result: the kernel computes each part of its outputs as soon as the
// part of the result that it reads is written, while that is in the cache.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_FOLLOWED_CONVOLUTION_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_FOLLOWED_CONVOLUTION_THUNK_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "sdk/engine/thunks/kernel_thunk.h"
#include "sdk/engine/thunks/library_thunk.h"

namespace backplane::engine {

class FollowedConvolutionThunk : public Thunk {
 public:
  // An image of the result has `rows` positions of the first spatial dimension, of `row_elements` elements each, which
  // is a multiple of kernel.elements_per_item().
  FollowedConvolutionThunk(std::unique_ptr<ConvolutionThunk> convolution, std::unique_ptr<KernelThunk> kernel,
                           int64_t rows, int64_t row_elements)
      : convolution_(std::move(convolution)), kernel_(std::move(kernel)), rows_(rows), row_elements_(row_elements) {}

  absl::Status Run(const RunState& state) const override {
    Context context{this, &state};
    Epilogue epilogue;
    epilogue.context = &context;
    epilogue.run = [](void* c, int64_t image, int64_t begin, int64_t end) {
      const Context& x = *static_cast<Context*>(c);
      const int64_t first = image * x.thunk->rows_, n = x.thunk->row_elements_;
      x.thunk->kernel_->RunPart(*x.state, (first + begin) * n, (first + end) * n);
    };
    return convolution_->RunWithEpilogue(state, &epilogue);
  }
  int64_t workspace_bytes(int num_threads) const override { return convolution_->workspace_bytes(num_threads); }
  double estimated_us() const override { return convolution_->estimated_us() + kernel_->estimated_us(); }

 private:
  struct Context {
    const FollowedConvolutionThunk* thunk;
    const RunState* state;
  };
  std::unique_ptr<ConvolutionThunk> convolution_;
  std::unique_ptr<KernelThunk> kernel_;
  int64_t rows_, row_elements_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_FOLLOWED_CONVOLUTION_THUNK_H_
