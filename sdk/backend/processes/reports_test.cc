// Tests the reports and answers that a process sends to others: what waits for them, and how many there may be.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "sdk/backend/processes/mesh_fixture.h"

namespace backplane {
namespace {

using Clock = std::chrono::steady_clock;

constexpr ExchangeKey kKey{1, 0, 0, 0};

class ReportsTest : public MessageMeshTest {
 protected:
  // A process waits until it has noticed that another one is lost.
  void AwaitLoss(int process, int lost) {
    const char byte = 1;
    const OutgoingPart out{lost, 0, &byte, 1};
    while (Join(process)->Exchange(kKey, "send", {&out, 1}, {}).ok()) std::this_thread::sleep_for(milliseconds(1));
  }
};

// The thread that starts launches goes on at once, although all of them fail. The host learns it when the report to the
// process that is left is on its way.
TEST_F(ReportsTest, StartingALaunchDoesNotWaitForItsReport) {
  constexpr int kLaunches = 30;
  ConnectAll(3);
  ShutDownProcess(2);
  AwaitLoss(0, 2);
  std::atomic<int> failed{0};
  std::vector<std::shared_ptr<LaunchExchange>> launches;
  const auto start = Clock::now();
  for (int i = 0; i < kLaunches; ++i) {
    launches.push_back(
        meshes_[0]->JoinLaunch({0, 1, 2}, {"jit_f", 1}, milliseconds(60000), [&](const absl::Status& why) {
          EXPECT_THAT(std::string(why.message()), HasSubstr("process 2 is lost"));
          ++failed;
        }));
  }
  EXPECT_LT(Clock::now() - start, milliseconds(kLaunches * 30 / 2));
  while (failed < kLaunches && Clock::now() - start < milliseconds(10000)) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(failed, kLaunches);
}

// Nobody is left to whom a failure could be reported.
TEST_F(ReportsTest, AnErrorWithoutAReportIsReturnedAtOnce) {
  constexpr int kLaunches = 30;
  ConnectAll(2);
  ShutDownProcess(1);
  AwaitLoss(0, 1);
  const auto start = Clock::now();
  for (int i = 0; i < kLaunches; ++i) {
    bool is_told = false;
    const auto launch =
        meshes_[0]->JoinLaunch({0, 1}, {"jit_f", 1}, milliseconds(60000), [&](const absl::Status&) { is_told = true; });
    EXPECT_TRUE(is_told);
    char byte = 0;
    const IncomingPart in{1, 0, &byte, 1};
    EXPECT_FALSE(launch->Exchange(kKey, "all-reduce", {}, {&in, 1}).ok());
  }
  EXPECT_LT(Clock::now() - start, milliseconds(kLaunches * 30 / 2));
}

// The client is closed before the host has learned of a failure: it learns it then.
TEST_F(ReportsTest, AFailureIsToldBeforeTheEnd) {
  ConnectAll(3);
  ShutDownProcess(2);
  AwaitLoss(0, 2);
  std::atomic<int> failed{0};
  const auto launch =
      meshes_[0]->JoinLaunch({0, 1, 2}, {"jit_f", 1}, milliseconds(60000), [&](const absl::Status&) { ++failed; });
  meshes_[0]->Close();
  EXPECT_EQ(failed, 1);
}

// A process that asks for more answers than this one can send is given up.
TEST_F(ReportsTest, AnswersThatAreNotSentAreLimited) {
  max_unawaited_frames_ = 100;
  ConnectAll(2);
  (void)Join(0);  // messages for this launch are refused one by one
  std::atomic<bool> blocks{true};
  wires_.on_send = [&](int process) {
    while (process == 0 && blocks) std::this_thread::sleep_for(milliseconds(1));
  };
  FrameHeader kept;
  kept.kind = FrameKind::kKept;
  kept.total_bytes = 1000;
  for (kept.part = 0; kept.part < 200; ++kept.part) SendFrame(1, 0, kept);
  char byte = 0;
  const IncomingPart in{1, 0, &byte, 1};
  const absl::Status got = Join(0, 1, milliseconds(1000))->Exchange(kKey, "receive", {}, {&in, 1});
  EXPECT_THAT(std::string(got.message()), HasSubstr("process 1 is lost: it does not read its messages"));
  blocks = false;
}

}  // namespace
}  // namespace backplane
