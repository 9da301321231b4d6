// Runs matrix multiplications and convolutions with planned library kernels.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_LIBRARY_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_LIBRARY_THUNK_H_

#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// `Plan` is MatmulPlan or ConvolutionPlan. `packed` holds the packed right operand if that is a constant, else null.
template <typename Plan>
class LibraryThunk : public Thunk {
 public:
  LibraryThunk(std::unique_ptr<Plan> plan, SlotId lhs, SlotId rhs, SlotId out, double estimated_us,
               std::shared_ptr<const std::byte> packed)
      : plan_(std::move(plan)),
        lhs_(lhs),
        rhs_(rhs),
        out_(out),
        estimated_us_(estimated_us),
        packed_(std::move(packed)) {}

  absl::Status Run(const RunState& state) const override {
    const void* rhs = packed_ ? static_cast<const void*>(packed_.get()) : state.slots[rhs_];
    return plan_->Execute(state.slots[lhs_], rhs, state.slots[out_], state.workspace, state.pool);
  }
  int64_t workspace_bytes(int) const override { return static_cast<int64_t>(plan_->scratch_bytes()) + 64; }
  double estimated_us() const override { return estimated_us_; }

 private:
  std::unique_ptr<Plan> plan_;
  SlotId lhs_, rhs_, out_;
  double estimated_us_;
  std::shared_ptr<const std::byte> packed_;
};

using DotThunk = LibraryThunk<MatmulPlan>;
using ConvolutionThunk = LibraryThunk<ConvolutionPlan>;

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_LIBRARY_THUNK_H_
