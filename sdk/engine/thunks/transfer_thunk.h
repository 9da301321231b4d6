// Runs sends, and the done halves of receives, which wait for the data.
#ifndef BACKPLANE_SDK_ENGINE_THUNKS_TRANSFER_THUNK_H_
#define BACKPLANE_SDK_ENGINE_THUNKS_TRANSFER_THUNK_H_

#include "sdk/backend/collectives/transfer.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

class TransferThunk : public Thunk {
 public:
  // `leaves` are the slots of the leaves that are sent or received.
  TransferThunk(std::unique_ptr<Transfer> plan, std::vector<SlotId> leaves)
      : plan_(std::move(plan)), leaves_(std::move(leaves)) {}
  absl::Status Run(const RunState& state) const override;
  double estimated_us() const override { return 100; }
  bool may_block() const override { return true; }

 private:
  std::unique_ptr<Transfer> plan_;
  std::vector<SlotId> leaves_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_THUNKS_TRANSFER_THUNK_H_
