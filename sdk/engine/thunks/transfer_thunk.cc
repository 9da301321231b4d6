#include "sdk/engine/thunks/transfer_thunk.h"

namespace backplane::engine {

absl::Status TransferThunk::Run(const RunState& state) const {
  if (state.context == nullptr) return absl::InternalError("transfer: the program was run without its launch");
  absl::InlinedVector<void*, 4> leaves;
  for (SlotId s : leaves_) leaves.push_back(s == kNoSlot ? nullptr : state.slots[s]);
  if (state.runs_without_host_calls != nullptr) state.runs_without_host_calls->store(0);
  LaunchMember* member = state.context->member;
  const ExecuteContext* host = state.context->user.get();
  if (!plan_->sends()) return plan_->Receive(member, host, leaves);
  const absl::InlinedVector<const void*, 4> sent(leaves.begin(), leaves.end());
  return plan_->Send(member, host, sent);
}

}  // namespace backplane::engine
