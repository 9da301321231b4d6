// Sends, and the waiting halves of receives.
#ifndef BACKPLANE_PLUGINS_CPU_THUNKS_TRANSFER_THUNK_H_
#define BACKPLANE_PLUGINS_CPU_THUNKS_TRANSFER_THUNK_H_

#include "plugins/cpu/thunks/thunk.h"
#include "sdk/backend/collectives/transfer.h"

namespace backplane::cpu {

class TransferThunk : public Thunk {
 public:
  // Slots of the leaves that are sent or received.
  TransferThunk(std::unique_ptr<Transfer> plan, std::vector<SlotId> leaves)
      : plan_(std::move(plan)), leaves_(std::move(leaves)) {}
  absl::Status Run(const RunState& state) const override;
  double estimated_us() const override { return 100; }
  bool may_block() const override { return true; }

 private:
  std::unique_ptr<Transfer> plan_;
  std::vector<SlotId> leaves_;
};

}  // namespace backplane::cpu

#endif  // BACKPLANE_PLUGINS_CPU_THUNKS_TRANSFER_THUNK_H_
