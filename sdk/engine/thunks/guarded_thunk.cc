#include "sdk/engine/thunks/guarded_thunk.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace backplane::engine {
namespace {

// Far more than a vector, less than a large step's workspace.
constexpr int64_t kGuardBytes = 16384;
constexpr int kFill = 0xA5;

bool IsRequested() {
  static const bool requested = [] {
    const char* value = std::getenv("BACKPLANE_GUARD_WORKSPACES");
    return value != nullptr && *value != 0 && absl::string_view(value) != "0";
  }();
  return requested;
}

class GuardedThunk : public Thunk {
 public:
  explicit GuardedThunk(std::unique_ptr<Thunk> step) : step_(std::move(step)) {}

  absl::Status Run(const RunState& state) const override {
    const int64_t bytes = step_->workspace_bytes(state.pool == nullptr ? 1 : state.pool->num_threads());
    std::byte* guard = state.workspace + bytes;
    std::memset(guard, kFill, kGuardBytes);
    if (absl::Status s = step_->Run(state); !s.ok()) return s;
    for (int64_t i = 0; i < kGuardBytes; ++i) {
      if (guard[i] == static_cast<std::byte>(kFill)) continue;
      return absl::InternalError(absl::StrCat("a step wrote byte ", i, " behind its workspace of ", bytes, " bytes"));
    }
    return absl::OkStatus();
  }
  int64_t workspace_bytes(int num_threads) const override { return step_->workspace_bytes(num_threads) + kGuardBytes; }
  double estimated_us() const override { return step_->estimated_us(); }
  bool may_block() const override { return step_->may_block(); }
  bool may_use_pool() const override { return step_->may_use_pool(); }

 private:
  const std::unique_ptr<Thunk> step_;
};

}  // namespace

void GuardWorkspaces(ThunkSequence& sequence) {
  if (!IsRequested()) return;
  for (std::unique_ptr<Thunk>& step : sequence) step = std::make_unique<GuardedThunk>(std::move(step));
}

}  // namespace backplane::engine
