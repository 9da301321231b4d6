// Runs collectives between the devices of a launch, which read and write one another's arrays directly.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_COLLECTIVE_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_COLLECTIVE_THUNK_H_

#include "sdk/backend/collectives/host_collective.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// Blocks the thread that runs the program, never a thread of the pool. The last device to arrive performs the
// operation, on the pool if it is large.
class CollectiveThunk : public Thunk {
 public:
  // `operands` and `results` are the slots of the leaves of all operands and of the result.
  CollectiveThunk(std::unique_ptr<HostCollective> plan, std::vector<SlotId> operands, std::vector<SlotId> results)
      : plan_(std::move(plan)), operands_(std::move(operands)), results_(std::move(results)) {}
  absl::Status Run(const RunState& state) const override;
  double estimated_us() const override { return 20 + static_cast<double>(plan_->group_bytes()) * 1e-4; }
  bool may_block() const override { return true; }

 private:
  std::unique_ptr<HostCollective> plan_;
  std::vector<SlotId> operands_, results_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_COLLECTIVE_THUNK_H_
