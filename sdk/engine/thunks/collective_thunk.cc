#include "sdk/engine/thunks/collective_thunk.h"

namespace backplane::engine {
namespace {

constexpr int64_t kParallelBytes = 1 << 19;  // waking the pool costs as much as copying so many

}  // namespace

absl::Status CollectiveThunk::Run(const RunState& state) const {
  if (state.context == nullptr || state.context->member == nullptr) {
    return absl::InternalError("collective: the program was run without its launch");
  }
  absl::InlinedVector<const void*, 8> operands;
  absl::InlinedVector<void*, 8> results;
  for (SlotId s : operands_) operands.push_back(s == kNoSlot ? nullptr : state.slots[s]);
  for (SlotId s : results_) results.push_back(s == kNoSlot ? nullptr : state.slots[s]);
  const bool parallel = state.pool != nullptr && plan_->group_bytes() >= kParallelBytes;
  return plan_->Run(*state.context->member, operands, results,
                    [&](int64_t chunks, absl::FunctionRef<void(int64_t)> body) {
                      if (!parallel || chunks < 2) {
                        for (int64_t i = 0; i < chunks; ++i) body(i);
                        return;
                      }
                      state.pool->ParallelFor(chunks, [&](int64_t chunk, int) { body(chunk); });
                    });
}

}  // namespace backplane::engine
