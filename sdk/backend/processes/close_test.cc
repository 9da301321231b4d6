// Tests how a process leaves: what it owes the others arrives, and launches that need nothing more of it go on.
#include <string>
#include <thread>
#include <vector>

#include "sdk/backend/processes/mesh_fixture.h"

namespace backplane {
namespace {

constexpr ExchangeKey kKey{1, 0, 0, 0};

class CloseTest : public MessageMeshTest {
 protected:
  // Process 0 sends a byte to 1 and 2 in a launch of all three, and closes its client. Then 2 sends its byte to 1.
  // `ends`: the launch of process 0 ends while it closes; otherwise it goes on.
  void CloseDuringLaunch(bool ends) {
    ConnectAll(3);
    std::shared_ptr<LaunchExchange> first = Join(0);
    const auto second = Join(1), third = Join(2);
    const char byte = 7;
    const OutgoingPart out[] = {{1, 0, &byte, 1}, {2, 0, &byte, 1}};
    EXPECT_TRUE(first->Exchange(kKey, "all-reduce", out, {}).ok());
    absl::Status got;
    char from_first = 0, from_third = 0;
    std::thread waiting([&] {
      const IncomingPart in[] = {{0, 0, &from_first, 1}, {2, 0, &from_third, 1}};
      got = second->Exchange(kKey, "all-reduce", {}, in);
    });
    std::thread ending([&] {
      std::this_thread::sleep_for(milliseconds(50));
      if (ends) first.reset();
    });
    meshes_[0]->Close();
    ending.join();
    const OutgoingPart late{1, 0, &byte, 1};
    EXPECT_TRUE(third->Exchange(kKey, "all-reduce", {&late, 1}, {}).ok());
    waiting.join();
    EXPECT_TRUE(got.ok()) << got;
    EXPECT_EQ(from_first, 7);
    EXPECT_EQ(from_third, 7);
  }
};

TEST_F(CloseTest, ALaunchThatEndsMeanwhileIsAwaited) {
  const auto start = std::chrono::steady_clock::now();
  CloseDuringLaunch(/*ends=*/true);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(50));
}

TEST_F(CloseTest, ALaunchThatGoesOnFailsHereAlone) { CloseDuringLaunch(/*ends=*/false); }

TEST_F(CloseTest, ALaunchThatNeedsTheProcessFails) {
  ConnectAll(2);
  const auto exchange = Join(1);
  absl::Status got;
  std::thread waiting([&] {
    char byte = 0;
    const IncomingPart in{0, 0, &byte, 1};
    got = exchange->Exchange(kKey, "all-reduce", {}, {&in, 1});
  });
  meshes_[0]->Close();
  waiting.join();
  EXPECT_THAT(std::string(got.message()), HasSubstr("process 0 has closed its client"));
}

// A message that is kept for its receiver is taken before the process leaves, even if the receiver comes late.
TEST_F(CloseTest, AKeptMessageIsAwaited) {
  ConnectAll(2);
  const std::string data(1000000, 'x');
  EXPECT_TRUE(Join(0)->Post(kKey, "send", 1, data).ok());
  ASSERT_EQ(meshes_[0]->CountKept(), 1u);
  std::string to(data.size(), '.');
  absl::Status got;
  std::thread receiving([&] {
    std::this_thread::sleep_for(milliseconds(50));
    const auto receiver = Join(1);
    const IncomingPart in{0, 0, to.data(), static_cast<int64_t>(to.size())};
    got = receiver->Exchange(kKey, "receive", {}, {&in, 1});
  });
  meshes_[0]->Close();
  receiving.join();
  EXPECT_TRUE(got.ok()) << got;
  EXPECT_TRUE(to == data);
}

// The last messages of a process are on their way when it leaves, and the receiver reads them slowly.
TEST_F(CloseTest, TheLastMessagesArrive) {
  constexpr int kMessages = 20;
  ConnectAll(2);
  {
    std::lock_guard<std::mutex> lock(wires_.mu);
    wires_.on_received = [](const BackplaneTransfer& t) {
      if (t.mesh->process == 1) std::this_thread::sleep_for(milliseconds(5));
    };
  }
  const auto receiver = Join(1);
  {
    const auto sender = Join(0);
    for (int64_t m = 0; m < kMessages; ++m) EXPECT_TRUE(sender->Post({1, m, 0, 0}, "send", 1, "message").ok());
  }
  meshes_[0]->Close();
  for (int64_t m = 0; m < kMessages; ++m) {
    std::string to(7, '.');
    const IncomingPart in{0, 0, to.data(), 7};
    const absl::Status got = receiver->Exchange({1, m, 0, 0}, "receive", {}, {&in, 1});
    EXPECT_TRUE(got.ok()) << m << ": " << got;
    EXPECT_EQ(to, "message");
  }
  std::lock_guard<std::mutex> lock(wires_.mu);
  wires_.on_received = nullptr;
}

// A message for a process that has left is refused, also if it would have to stay with its sender.
TEST_F(CloseTest, NothingIsKeptForAProcessThatHasLeft) {
  ConnectAll(2);
  meshes_[1]->Close();
  while (Join(0)->Post(kKey, "send", 1, "x").ok()) std::this_thread::sleep_for(milliseconds(1));
  const absl::Status posted = Join(0)->Post(kKey, "send", 1, std::string(1000000, 'x'));
  EXPECT_EQ(posted.code(), absl::StatusCode::kUnavailable) << posted;
  EXPECT_EQ(posted.message(), "send of jit_f: process 1 has closed its client");
  EXPECT_EQ(meshes_[0]->CountKept(), 0u);
}

// A sender that waits until a reader releases its memory learns that the reader has left. It expects nothing else.
TEST_F(CloseTest, ASharedBlockIsNotAwaitedFromAProcessThatHasLeft) {
  shared_blocks_ = {8, 8, 8};
  ConnectAll(3);
  const std::string data(16 * kSharedBlockBytes, 'x');
  const auto bytes = static_cast<int64_t>(data.size());
  const auto sender = Join(0, 1, milliseconds(20000)), reader = Join(2, 1, milliseconds(20000));
  std::thread reading([&] {
    std::string to(data.size(), '.');
    const IncomingPart in{0, 0, to.data(), bytes};
    (void)reader->Exchange(kKey, "receive", {}, {&in, 1});
  });
  std::thread leaving([&] {
    std::this_thread::sleep_for(milliseconds(50));
    meshes_[1]->Close();
  });
  const OutgoingPart out[] = {{1, 0, data.data(), bytes}, {2, 0, data.data(), bytes}};
  const absl::Status sent = sender->Exchange(kKey, "send", out, {});
  EXPECT_EQ(sent.message(), "send of jit_f: process 1 has closed its client");
  leaving.join();
  reading.join();
}

// Others may go on asking whether a process is alive while it closes its client. It does not wait for an end of that.
TEST_F(CloseTest, OthersMayGoOnAsking) {
  ConnectAll(2);
  std::atomic<bool> is_closed{false};
  std::thread asking([&] {
    FrameHeader ping;
    ping.kind = FrameKind::kPing;
    ping.process = 1;
    while (!is_closed) {
      BackplaneTransfer* transfer = nullptr;
      ASSERT_EQ(Start(wires_.meshes[1], true, 0, kFrameSlot, &ping, nullptr, sizeof ping, &transfer), 0);
      char text[64];
      if (Wait(transfer, -1, {text, sizeof text}) != BACKPLANE_TRANSPORT_OK) return;
    }
  });
  const auto start = std::chrono::steady_clock::now();
  meshes_[0]->Close();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5000));
  is_closed = true;
  asking.join();
}

// Nor do two that close at once wait for each other.
TEST_F(CloseTest, AllMayCloseAtOnce) {
  for (int round = 0; round < 20; ++round) {
    meshes_.clear();
    wires_.closed.clear();
    ConnectAll(3);
    const auto start = std::chrono::steady_clock::now();
    RunAll([&](int i) { meshes_[static_cast<size_t>(i)]->Close(); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
  }
}

}  // namespace
}  // namespace backplane
