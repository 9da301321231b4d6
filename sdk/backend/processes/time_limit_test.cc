// Tests the time limit of exchanges whose parts are large: a transfer that goes on is not an absent process.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "sdk/backend/processes/mesh_fixture.h"
#include "sdk/backend/processes/mesh_records.h"

namespace backplane {
namespace {

using message_mesh::kPieceBytes;

constexpr ExchangeKey kKey{1, 0, 0, 0};

class TimeLimitTest : public MessageMeshTest {
 protected:
  // Two processes exchange four megabytes. Process 1 comes late, and then the transfer takes its time.
  void ExchangeLate(int limit_ms, int late_ms, int transfer_ms) {
    wires_.transfer_ms = transfer_ms;
    RunAll([&](int i) {
      const std::string data(4 << 20, static_cast<char>('a' + i));
      std::string to(data.size(), '.');
      const OutgoingPart out{1 - i, 0, data.data(), static_cast<int64_t>(data.size())};
      const IncomingPart in{1 - i, 0, to.data(), static_cast<int64_t>(to.size())};
      if (i == 1) std::this_thread::sleep_for(milliseconds(late_ms));
      const auto exchange = Join(i, 1, milliseconds(limit_ms));
      absl::Status got = exchange->Exchange(kKey, "all-gather", {&out, 1}, {&in, 1});
      EXPECT_TRUE(got.ok()) << got;
      // Nor has the launch failed meanwhile.
      const OutgoingPart small_out{1 - i, 0, data.data(), 1};
      const IncomingPart small_in{1 - i, 0, to.data(), 1};
      got = exchange->Exchange({2, 0, 0, 0}, "all-gather", {&small_out, 1}, {&small_in, 1});
      EXPECT_TRUE(got.ok()) << got;
      EXPECT_TRUE(to == std::string(to.size(), static_cast<char>('a' + 1 - i)));
    });
    wires_.transfer_ms = 0;
  }
  // Process 1 offers a part and does not send it.
  absl::Status ReceiveWhatDoesNotCome(int limit_ms, const std::function<void()>& offered) {
    FrameHeader offer;
    offer.kind = FrameKind::kOffer;
    offer.total_bytes = 4 << 20;
    const auto exchange = Join(0, 1, milliseconds(limit_ms));
    SendFrame(1, 0, offer);
    offered();
    std::string to(4 << 20, '.');
    const IncomingPart in{1, 0, to.data(), static_cast<int64_t>(to.size())};
    return exchange->Exchange(kKey, "all-gather", {}, {&in, 1});
  }
};

// The limit is for a process that does not come. One that comes just before it has time to send its part.
TEST_F(TimeLimitTest, ATransferMayEndAfterTheLimit) {
  ConnectAll(2);
  ExchangeLate(1000, 800, 500);
  ExchangeAll({1000, kPosted + 1});
}

// As long as the other process answers, a slow transfer goes on.
TEST_F(TimeLimitTest, ASlowTransferGoesOn) {
  ConnectAll(2);
  ExchangeLate(200, 0, 1500);
  ExchangeAll({1000, kPosted + 1});
}

TEST_F(TimeLimitTest, ATransferFromASilentProcessEnds) {
  ConnectAll(2);
  std::atomic<bool> is_silent{false};
  wires_.on_send = [&](int process) {
    while (process == 1 && is_silent) std::this_thread::sleep_for(milliseconds(1));
  };
  const absl::Status got = ReceiveWhatDoesNotCome(100, [&] { is_silent = true; });
  is_silent = false;
  EXPECT_EQ(got.code(), absl::StatusCode::kDeadlineExceeded) << got;
  EXPECT_THAT(std::string(got.message()), HasSubstr("all-gather of jit_f: process 1 did not answer within 0.1 s"));
}

// Nor does a transfer without any progress go on for ever.
TEST_F(TimeLimitTest, ATransferThatStandsStillEnds) {
  ConnectAll(2);
  const absl::Status got = ReceiveWhatDoesNotCome(10, [] {});
  EXPECT_EQ(got.code(), absl::StatusCode::kDeadlineExceeded) << got;
}

// Larger parts than that are sent in pieces, each of which has the time of the limit.
TEST_F(TimeLimitTest, LargePartsArriveInPieces) {
  ConnectAll(2);
  const std::string data(static_cast<size_t>(2 * kPieceBytes + 5), 'x');
  const auto bytes = static_cast<int64_t>(data.size());
  std::string first(data.size(), '.'), second(data.size(), '.');
  const auto sender = Join(0), receiver = Join(1);
  EXPECT_TRUE(sender->Post({2, 0, 0, 0}, "send", 1, data).ok());
  std::thread sending([&] {
    const OutgoingPart out{1, 0, data.data(), bytes};
    EXPECT_TRUE(sender->Exchange(kKey, "send", {&out, 1}, {}).ok());
  });
  const IncomingPart in[] = {{0, 0, first.data(), bytes}, {0, 0, second.data(), bytes}};
  EXPECT_TRUE(receiver->Exchange(kKey, "receive", {}, {&in[0], 1}).ok());
  EXPECT_TRUE(receiver->Exchange({2, 0, 0, 0}, "receive", {}, {&in[1], 1}).ok());
  sending.join();
  EXPECT_TRUE(first == data);
  EXPECT_TRUE(second == data);
  std::lock_guard<std::mutex> lock(wires_.mu);
  for (const BackplaneTransfer* t : wires_.meshes[0]->transfers) EXPECT_LE(t->size, static_cast<size_t>(kPieceBytes));
}

}  // namespace
}  // namespace backplane
