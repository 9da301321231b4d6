// Tests processes that are many launches ahead of others.
#include <string>
#include <thread>
#include <vector>

#include "sdk/backend/processes/mesh_fixture.h"

namespace backplane {
namespace {

constexpr ExchangeKey kKey{1, 0, 0, 0};

class AheadTest : public MessageMeshTest {
 protected:
  absl::Status ReceiveByte(LaunchExchange& exchange, int from, char* byte) {
    const IncomingPart in{from, 0, byte, 1};
    return exchange.Exchange(kKey, "receive", {}, {&in, 1});
  }
  absl::Status Send(LaunchExchange& exchange, int to) { return exchange.Post(kKey, "send", to, "x"); }
};

// The messages of more launches than their receiver has room for stay with their sender, or the launch fails. The
// receiver needs all the launches and gives up nobody.
TEST_F(AheadTest, ASenderMayBeManyLaunchesAhead) {
  for (const int64_t limit : {max_ahead_bytes_, int64_t{1} << 20}) {
    for (const int64_t blocks : {0, 2}) {
      if (limit > (1 << 20) && blocks == 0) continue;  // takes long
      meshes_.clear();
      wires_.closed.clear();
      max_ahead_bytes_ = limit;
      shared_blocks_ = {blocks, blocks};
      ConnectAll(2);
      int sent = 0;
      absl::Status posted;
      for (; sent < 70000 && posted.ok(); ++sent) posted = Send(*Join(0), 1);
      EXPECT_EQ(posted.ok(), limit > (1 << 20)) << posted;
      if (!posted.ok()) {
        EXPECT_EQ(posted.code(), absl::StatusCode::kResourceExhausted) << posted;
        EXPECT_GT(sent, 3 * limit / 2560 - 10);
      }
      for (int i = 0; i < sent; ++i) {
        char byte = 0;
        const absl::Status got = ReceiveByte(*Join(1), 0, &byte);
        ASSERT_EQ(got.ok(), posted.ok() || i + 1 < sent) << i << ": " << got;
      }
      ExchangeAll({1000, kPosted + 1});
    }
  }
}

// Each launch fails in one process before the other one has started it. The other one learns of every failure.
TEST_F(AheadTest, AProcessMayFailManyLaunches) {
  constexpr int kLaunches = 70000;
  max_ahead_bytes_ = 1 << 20;
  ConnectAll(2);
  for (int i = 0; i < kLaunches; ++i) Join(0)->Fail(absl::AbortedError("it went wrong"));
  for (int i = 0; i < kLaunches; ++i) {
    char byte = 0;
    const auto exchange = Join(1);
    ASSERT_EQ(ReceiveByte(*exchange, 0, &byte).message(), "process 0 reports: it went wrong") << i;
  }
  ExchangeAll({1000, kPosted + 1});
}

// What launches cost is returned, whichever message is the first: afterwards there is room as before.
TEST_F(AheadTest, RoomForLaunchesIsNotLost) {
  max_ahead_bytes_ = 1 << 18;
  for (const int64_t blocks : {0, 8}) {
    meshes_.clear();
    wires_.closed.clear();
    shared_blocks_ = {blocks, blocks};
    ConnectAll(2);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
      const size_t bytes = i % 3 == 0 ? 1 : i % 3 == 1 ? 20000 : 400000;
      const std::string data(bytes, 'x');
      const auto sender = Join(0);
      std::shared_ptr<LaunchExchange> receiver;
      if (i % 2 == 0) receiver = Join(1);
      const absl::Status posted = sender->Post(kKey, "send", 1, data);
      if (!posted.ok()) {  // the receiver has yet to tell that there is room
        ++refused;
        std::this_thread::sleep_for(milliseconds(20));
      }
      if (i % 5 == 0) sender->Fail(absl::AbortedError("it went wrong"));
      if (receiver == nullptr) receiver = Join(1);
      std::string to(bytes, '.');
      const IncomingPart in{0, 0, to.data(), static_cast<int64_t>(bytes)};
      const absl::Status got = receiver->Exchange(kKey, "receive", {}, {&in, 1});
      ASSERT_TRUE(got.ok() || i % 5 == 0 || !posted.ok()) << i << ": " << got;
    }
    EXPECT_LT(refused, 300);  // of the last 2700, if nothing were returned
    ExchangeAll({1000, kPosted + 1});
  }
}

// A process that speaks of more and more launches is given up.
TEST_F(AheadTest, UnknownLaunchesAreLimited) {
  max_ahead_bytes_ = 1 << 16;
  ConnectAll(2);
  for (const FrameKind kind : {FrameKind::kAbort, FrameKind::kReady}) {
    FrameHeader header;
    header.kind = kind;
    header.slot = 9;
    for (header.sequence = 100; header.sequence < 250; ++header.sequence) SendFrame(1, 0, header);
  }
  char byte = 0;
  EXPECT_THAT(std::string(ReceiveByte(*Join(0, 1, milliseconds(5000)), 1, &byte).message()),
              HasSubstr("process 1 is lost: it sent too much ahead"));
}

}  // namespace
}  // namespace backplane
