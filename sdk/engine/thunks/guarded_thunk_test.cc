#include "sdk/engine/thunks/guarded_thunk.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace backplane::engine {
namespace {

// Says that it needs `said` bytes and writes `written`.
class WritingThunk : public Thunk {
 public:
  WritingThunk(int64_t said, int64_t written) : said_(said), written_(written) {}
  absl::Status Run(const RunState& state) const override {
    std::memset(state.workspace, 1, static_cast<size_t>(written_));
    return absl::OkStatus();
  }
  int64_t workspace_bytes(int) const override { return said_; }

 private:
  const int64_t said_, written_;
};

absl::Status RunGuarded(int64_t said, int64_t written) {
  ThunkSequence sequence;
  sequence.push_back(std::make_unique<WritingThunk>(100'000, 100'000));  // the workspace is as large as its need
  sequence.push_back(std::make_unique<WritingThunk>(said, written));
  GuardWorkspaces(sequence);
  int64_t most = 0;
  for (const auto& step : sequence) most = std::max(most, step->workspace_bytes(1));
  std::vector<std::byte> workspace(static_cast<size_t>(most));
  RunState state;
  state.workspace = workspace.data();
  return RunSequence(sequence, state);
}

TEST(GuardedThunk, FindsStepsThatWriteBehindTheirWorkspace) {
  ASSERT_EQ(setenv("BACKPLANE_GUARD_WORKSPACES", "1", 1), 0);
  EXPECT_TRUE(RunGuarded(256, 256).ok());
  EXPECT_TRUE(RunGuarded(0, 0).ok());
  const absl::Status status = RunGuarded(256, 257);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "a step wrote byte 0 behind its workspace of 256 bytes");
}

}  // namespace
}  // namespace backplane::engine
