// Runs matrix multiplications and convolutions with planned library kernels.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_LIBRARY_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_LIBRARY_THUNK_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "sdk/engine/kernels/attention.h"
#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// A plan for the same problem with a packed right operand, which an execution may provide
// (ExecutionContext::packed_weights), and the number of that operand there.
template <typename Plan>
struct PackableOperand {
  std::shared_ptr<const Plan> plan;  // null: there is none
  size_t number = 0;
};

// `Plan` is MatmulPlan or ConvolutionPlan. `packed` holds the packed right operand if that is a constant, else null.
template <typename Plan>
class LibraryThunk : public Thunk {
 public:
  LibraryThunk(std::shared_ptr<const Plan> plan, SlotId lhs, SlotId rhs, SlotId out, double estimated_us,
               std::shared_ptr<const std::byte> packed, PackableOperand<Plan> packable = {})
      : plan_(std::move(plan)),
        lhs_(lhs),
        rhs_(rhs),
        out_(out),
        estimated_us_(estimated_us),
        packed_(std::move(packed)),
        packable_(std::move(packable)) {}

  absl::Status Run(const RunState& state) const override { return RunWithEpilogue(state, nullptr); }
  // `epilogue` may be null; see MatmulPlan::Execute and ConvolutionPlan::Execute.
  absl::Status RunWithEpilogue(const RunState& state, const Epilogue* epilogue) const {
    if (packable_.plan != nullptr && state.context != nullptr &&
        packable_.number < state.context->packed_weights.size()) {
      if (const void* form = state.context->packed_weights[packable_.number].get(); form != nullptr) {
        return packable_.plan->Execute(state.slots[lhs_], form, state.slots[out_], state.workspace, state.pool,
                                       epilogue);
      }
    }
    const void* rhs = packed_ ? static_cast<const void*>(packed_.get()) : state.slots[rhs_];
    return plan_->Execute(state.slots[lhs_], rhs, state.slots[out_], state.workspace, state.pool, epilogue);
  }
  // Of a convolution: ConvolutionPlan::has_row_epilogue of each plan that may run.
  bool has_row_epilogue() const {
    return plan_->has_row_epilogue() && (packable_.plan == nullptr || packable_.plan->has_row_epilogue());
  }
  int64_t workspace_bytes(int) const override {
    const size_t packable = packable_.plan == nullptr ? 0 : packable_.plan->scratch_bytes();
    return static_cast<int64_t>(std::max(plan_->scratch_bytes(), packable)) + 64;
  }
  double estimated_us() const override { return estimated_us_; }

 private:
  std::shared_ptr<const Plan> plan_;  // other thunks may have the same one
  SlotId lhs_, rhs_, out_;
  double estimated_us_;
  std::shared_ptr<const std::byte> packed_;
  PackableOperand<Plan> packable_;
};

// `arrays`: those that the steps of the problem read.
class AttentionThunk : public Thunk {
 public:
  AttentionThunk(std::unique_ptr<AttentionPlan> plan, SlotId queries, SlotId keys, SlotId values,
                 std::vector<SlotId> arrays, SlotId out, double estimated_us)
      : plan_(std::move(plan)),
        queries_(queries),
        keys_(keys),
        values_(values),
        out_(out),
        arrays_(std::move(arrays)),
        estimated_us_(estimated_us) {}

  absl::Status Run(const RunState& state) const override {
    absl::InlinedVector<const void*, 8> arrays;
    for (SlotId slot : arrays_) arrays.push_back(state.slots[slot]);
    return plan_->Execute(state.slots[queries_], state.slots[keys_], state.slots[values_], arrays, state.slots[out_],
                          state.workspace, state.pool);
  }
  int64_t workspace_bytes(int) const override { return static_cast<int64_t>(plan_->scratch_bytes()) + 64; }
  double estimated_us() const override { return estimated_us_; }

 private:
  std::unique_ptr<AttentionPlan> plan_;
  SlotId queries_, keys_, values_, out_;
  std::vector<SlotId> arrays_;
  double estimated_us_;
};

using DotThunk = LibraryThunk<MatmulPlan>;
using ConvolutionThunk = LibraryThunk<ConvolutionPlan>;

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_LIBRARY_THUNK_H_
