// Runs a generated kernel: its phases in order, each over its work items.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_KERNEL_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_KERNEL_THUNK_H_

#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

class KernelThunk : public Thunk {
 public:
  // `slots` are those of the inputs, then of the outputs. `functions` has one entry for each phase of the plan.
  KernelThunk(codegen::KernelPlan plan, std::vector<codegen::KernelFn> functions, std::vector<SlotId> slots);
  absl::Status Run(const RunState& state) const override;
  void Bind(const RunState& state, BoundSequence* bound) const override;
  int64_t workspace_bytes(int num_threads) const override;
  double estimated_us() const override;
  bool may_use_pool() const override;

  // If not 0, the kernel can be run in parts of so many elements of its outputs (codegen::KernelPhase).
  int64_t elements_per_item() const;
  // Computes the elements [begin, end) of the outputs, which must be whole items. Thread-safe for disjoint parts.
  void RunPart(const RunState& state, int64_t begin, int64_t end) const;
  absl::Span<const SlotId> slots() const { return slots_; }

 private:
  codegen::KernelPlan plan_;
  std::vector<codegen::KernelFn> functions_;
  std::vector<SlotId> slots_;
  int64_t temp_total_ = 0, scratch_stride_ = 0;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_KERNEL_THUNK_H_
