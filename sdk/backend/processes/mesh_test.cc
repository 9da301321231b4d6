// Tests sends that nobody takes yet, and failures, of the messages between processes.
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_fixture.h"
#include "sdk/backend/processes/mesh_state.h"

using backplane::allocations_left;

void* operator new(size_t size) {
  if (allocations_left == 0) {
    allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace backplane {
namespace {

std::string Pattern(size_t bytes, int seed) {
  std::string data(bytes, static_cast<char>('a' + seed));
  for (size_t i = 0; i < bytes; i += 1009) data[i] = static_cast<char>(i / 1009 + static_cast<size_t>(seed));
  return data;
}

// Waits until `condition` holds, at most for ten seconds.
template <typename Condition>
bool HoldsSoon(Condition&& condition) {
  for (int i = 0; i < 10000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
  return condition();
}

// Two programs that send far more than there is room for, then meet in a collective, and only then receive, the last
// message first. With and without shared memory; the room is that of a few messages.
TEST_F(MessageMeshTest, SendsDoNotWaitForTheReceiver) {
  std::vector<size_t> sizes = {70000, 262144, 262145, 3000000, 5000000, 1};
  for (int i = 0; i < 60; ++i) sizes.push_back(3000);
  for (int i = 0; i < 12; ++i) sizes.push_back(40000);
  max_ahead_bytes_ = 100000;
  for (const int64_t blocks : {0, 8}) {
    meshes_.clear();
    wires_.closed.clear();
    shared_blocks_ = {blocks, blocks};
    ConnectAll(2);
    RunAll([&](int i) {
      LaunchOptions options;
      options.replicas = 2;
      options.node_of = {0, 1};
      options.node = i;
      auto launch = std::make_shared<Launch>(options);
      launch->Connect(Join(i, 1, milliseconds(20000)));
      const auto start = std::chrono::steady_clock::now();
      for (size_t m = 0; m < sizes.size(); ++m) {
        const absl::Status sent = launch->PostMessage(static_cast<int64_t>(m), 0, i, 1 - i, Pattern(sizes[m], i));
        ASSERT_TRUE(sent.ok()) << sent;
      }
      char mine = static_cast<char>(i), other = 9;
      const OutgoingPart out{1 - i, 0, &mine, 1};
      const IncomingPart in{1 - i, 0, &other, 1};
      const absl::Status met = launch->exchange()->Exchange({1000, 0, 0, 0}, "all-reduce", {&out, 1}, {&in, 1});
      ASSERT_TRUE(met.ok()) << met;
      EXPECT_EQ(other, 1 - i);
      EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(10000));
      for (size_t m = sizes.size(); m-- > 0;) {
        const auto got =
            launch->FetchMessage(static_cast<int64_t>(m), 0, 1 - i, i, static_cast<int64_t>(sizes[m]), "r");
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_TRUE(*got == Pattern(sizes[m], 1 - i)) << m;
      }
    });
    for (const auto& mesh : meshes_) EXPECT_TRUE(HoldsSoon([&] { return mesh->CountKept() == 0; }));
    ExchangeAll({1000, kPosted + 1});
  }
}

// The launch of the sender may end before the receiver takes the message, or starts its launch.
TEST_F(MessageMeshTest, AMessageOutlivesTheLaunchOfItsSender) {
  ConnectAll(2);
  const std::string data = Pattern(1000000, 3);
  const ExchangeKey key{-1, 0, 0, 1};
  for (const bool receiver_is_first : {false, true}) {
    std::shared_ptr<LaunchExchange> receiver;
    if (receiver_is_first) receiver = Join(1);
    EXPECT_TRUE(Join(0)->Post(key, "send", 1, data).ok());
    EXPECT_EQ(meshes_[0]->CountKept(), 1u);
    if (!receiver_is_first) receiver = Join(1);
    std::string to(data.size(), '.');
    const IncomingPart in{0, 0, to.data(), static_cast<int64_t>(to.size())};
    EXPECT_TRUE(receiver->Exchange(key, "receive", {}, {&in, 1}).ok());
    EXPECT_TRUE(to == data);
    EXPECT_TRUE(HoldsSoon([&] { return meshes_[0]->CountKept() == 0; }));
  }
}

// What nobody receives is freed when the receiver's launch ends, fails or expects another size, or when it is lost.
TEST_F(MessageMeshTest, AMessageThatNobodyTakesIsFreed) {
  ConnectAll(2);
  const ExchangeKey key{-1, 0, 0, 1};
  const auto post = [&] {
    const auto exchange = Join(0);
    EXPECT_TRUE(exchange->Post(key, "send", 1, std::string(1000000, 'x')).ok());
    return exchange;
  };
  const auto is_freed = [&] { return HoldsSoon([&] { return meshes_[0]->CountKept() == 0; }); };
  post();
  Join(1);
  EXPECT_TRUE(is_freed());
  {
    const auto receiver = Join(1);
    receiver->Fail(absl::AbortedError("it went wrong"));
    (void)Join(0)->Post(key, "send", 1, std::string(1000000, 'x'));  // before or after the report
    EXPECT_TRUE(is_freed());
  }
  {
    const auto sender = post(), receiver = Join(1);
    char byte = 0;
    const IncomingPart in{0, 0, &byte, 1};
    EXPECT_THAT(std::string(receiver->Exchange(key, "receive", {}, {&in, 1}).message()),
                HasSubstr("process 0 sends 1000000 bytes, process 1 expects 1"));
    EXPECT_TRUE(is_freed());
  }
  post();
  ShutDownProcess(1);
  EXPECT_TRUE(is_freed());
}

// Parts of a collective that do not fit into the receiver's room are offered.
TEST_F(MessageMeshTest, ExchangesWithLittleRoom) {
  for (const int64_t blocks : {0, 32}) {
    meshes_.clear();
    wires_.closed.clear();
    max_ahead_bytes_ = 5000;
    shared_blocks_ = {blocks, blocks, blocks};
    ConnectAll(3);
    ExchangeAll({1, 1000, 3000, 20000, kPosted, 1000, kPosted + 1});
  }
}

// A process that offers more and more is not believed, and learns it at once.
TEST_F(MessageMeshTest, AProcessThatIsGivenUpIsTold) {
  max_ahead_bytes_ = 16384;
  ConnectAll(3);
  const auto victim = Join(0), culprit = Join(1), other = Join(2);
  FrameHeader offer;
  offer.kind = FrameKind::kOffer;
  offer.total_bytes = 1000000;
  for (int i = 0; i < 4 * 16384 / 512 + 1; ++i) {
    offer.part = i;
    SendFrame(1, 0, offer);
  }
  std::vector<absl::Status> got(3);
  RunAll([&](int i) {
    const auto& exchange = i == 0 ? victim : i == 1 ? culprit : other;
    char byte = 0;
    const IncomingPart in{(i + 1) % 3, 0, &byte, 1};
    got[static_cast<size_t>(i)] = exchange->Exchange({7, 0, 0, 0}, "all-reduce", {}, {&in, 1});
  });
  EXPECT_THAT(std::string(got[0].message()), HasSubstr("process 1 is lost: it sent too much ahead"));
  EXPECT_THAT(std::string(got[1].message()), HasSubstr("process 1 is lost: it sent too much ahead"));
  EXPECT_THAT(std::string(got[2].message()), HasSubstr("process 1 is lost: it sent too much ahead"));
  // What it goes on to send is read, although it is ignored, and its later launches fail at once.
  std::string data(100000, 'x');
  const OutgoingPart out{0, 0, data.data(), static_cast<int64_t>(data.size())};
  for (int i = 0; i < 20; ++i) SendFrame(1, 0, offer);
  const absl::Status later = Join(1)->Exchange({1, 0, 0, 0}, "all-reduce", {&out, 1}, {});
  EXPECT_THAT(std::string(later.message()), HasSubstr("process 0 is lost"));
  // The other two go on.
  RunAll([&](int i) {
    if (i == 1) return;
    char byte = 0, mine = 5;
    const OutgoingPart to{2 - i, 0, &mine, 1};
    const IncomingPart in{2 - i, 0, &byte, 1};
    const absl::Status ok = meshes_[static_cast<size_t>(i)]
                                ->JoinLaunch({0, 2}, {"jit_g", 5}, milliseconds(60000), nullptr)
                                ->Exchange({1, 0, 0, 0}, "all-reduce", {&to, 1}, {&in, 1});
    EXPECT_TRUE(ok.ok()) << ok;
    EXPECT_EQ(byte, 5);
  });
}

// A frame that is shorter than a header is not completed from the one that was in the same memory before.
TEST_F(MessageMeshTest, AShortFrameIsNotCompleted) {
  ConnectAll(2);
  FrameHeader data;
  data.kind = FrameKind::kOffer;
  data.total_bytes = 8;
  FrameHeader ping;
  ping.kind = FrameKind::kPing;
  SendFrame(1, 0, data);
  for (int i = 0; i < 2; ++i) SendFrame(1, 0, ping);
  SendFrame(1, 0, data, 8);  // where `data` was
  for (int i = 0; i < 3; ++i) SendFrame(1, 0, ping);
  const auto exchange = Join(0, 1, milliseconds(60000));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(exchange->Exchange({2, 0, 0, 0}, "nothing", {}, {}).ok());
}

// Reports and answers, for which nobody waits, are freed when they have arrived.
TEST_F(MessageMeshTest, ReportsAreFreed) {
  ConnectAll(2);
  const auto count_open = [&] {
    std::lock_guard<std::mutex> lock(wires_.mu);
    const auto& all = wires_.meshes[0]->transfers;
    return std::count_if(all.begin(), all.end(), [](const BackplaneTransfer* t) { return t->sends && !t->waited; });
  };
  for (int i = 0; i < 1000; ++i) Join(0)->Fail(absl::AbortedError("it went wrong"));
  EXPECT_TRUE(HoldsSoon([&] { return count_open() < 100; })) << count_open();
}

// Another thread may start a launch while the client is being closed, and its failures are being reported.
TEST_F(MessageMeshTest, ALaunchThatStartsDuringCloseFails) {
  ConnectAll(2);
  std::shared_ptr<LaunchExchange> late;
  const auto early = meshes_[0]->JoinLaunch({0, 1}, {"jit_f", 1}, milliseconds(60000), [&](const absl::Status&) {
    std::thread([&] { late = Join(0, 1, milliseconds(3000)); }).join();
  });
  meshes_[0]->Close();
  char byte = 0;
  const IncomingPart in{1, 0, &byte, 1};
  EXPECT_EQ(late->Exchange({1, 0, 0, 0}, "all-reduce", {}, {&in, 1}),
            absl::CancelledError("the client is being closed"));
}

// Whatever allocation of an exchange fails: the launch fails, here and in the other process, and nothing is left
// behind.
TEST_F(MessageMeshTest, AnExchangeWithoutMemoryFailsTheLaunch) {
  for (const int64_t blocks : {0, 8}) {
    meshes_.clear();
    wires_.closed.clear();
    shared_blocks_ = {blocks, blocks};
    ConnectAll(2);
    bool has_failed = true;
    int allocation = 0;
    for (; has_failed; ++allocation) {
      ASSERT_LT(allocation, 1000);
      std::vector<absl::Status> got(2);
      RunAll([&](int i) {
        const std::string small(1000, 'x'), medium(100000, 'y'), large(400000, 'z');
        std::string to_small(1000, '.'), to_medium(100000, '.'), to_large(400000, '.');
        std::vector<OutgoingPart> out = {{1 - i, 0, small.data(), 1000}, {1 - i, 1, medium.data(), 100000}};
        std::vector<IncomingPart> in = {{1 - i, 0, to_small.data(), 1000}, {1 - i, 1, to_medium.data(), 100000}};
        // Not from process 0: after an offer that was answered, its error would close the connections.
        if (i == 0) in.push_back({1, 2, to_large.data(), 400000});
        if (i == 1) out.push_back({0, 2, large.data(), 400000});
        const auto exchange = Join(i, 1, milliseconds(20000));
        if (i == allocation % 2) std::this_thread::sleep_for(milliseconds(1));
        if (i == 0) allocations_left = allocation;
        got[static_cast<size_t>(i)] = CatchExceptions([&] {
          return exchange->Exchange({1, 0, 0, 0}, "all-reduce", out, in);
        });
        if (i == 0) has_failed = allocations_left < 0;
        allocations_left = -1;
      });
      for (const absl::Status& s : got) {
        EXPECT_EQ(s.code(), has_failed ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk)
            << allocation << " " << s;
      }
    }
    EXPECT_GT(allocation, 5);
    ExchangeAll({1000, 100000, kPosted + 1, 3 * kSharedBlockBytes});
  }
}

// A process without memory for a message fails the launch of the message. It does not give up the sender.
TEST_F(MessageMeshTest, AMessageWithoutMemoryFailsItsLaunch) {
  ConnectAll(2);
  std::atomic<bool> fails{false};
  wires_.on_received = [&](const BackplaneTransfer& t) {
    if (t.mesh->process == 0 && fails.exchange(false)) allocations_left = 0;
  };
  for (const bool receiver_is_first : {false, true}) {
    std::shared_ptr<LaunchExchange> receiver;
    if (receiver_is_first) receiver = Join(0);
    const auto sender = Join(1);
    std::string data(1000, 'x');
    const OutgoingPart out{0, 0, data.data(), 1000};
    fails = true;
    (void)sender->Exchange({1, 0, 0, 0}, "send", {&out, 1}, {});  // the report may come before its end
    EXPECT_TRUE(HoldsSoon([&] { return !fails; }));
    if (!receiver_is_first) receiver = Join(0);
    std::vector<absl::Status> got(2);
    RunAll([&](int i) {
      char byte = 0;
      const IncomingPart in{1 - i, 0, &byte, 1};
      got[static_cast<size_t>(i)] = (i == 0 ? receiver : sender)->Exchange({2, 0, 0, 0}, "all-reduce", {}, {&in, 1});
    });
    EXPECT_EQ(got[0].message(), "a message of process 1: out of host memory");
    EXPECT_EQ(got[1].message(), "process 0 reports: a message of process 1: out of host memory");
  }
  wires_.on_received = nullptr;
  ExchangeAll({1000, kPosted + 1});
}

// Nor when it was the first of several chunks, and the launch has not started: the later ones are dropped.
TEST_F(MessageMeshTest, AChunkWithoutMemoryFailsItsLaunch) {
  shared_blocks_ = {8, 8};
  ConnectAll(2);
  std::atomic<bool> fails{true};
  wires_.on_received = [&](const BackplaneTransfer& t) {
    if (t.mesh->process == 0 && fails.exchange(false)) allocations_left = 0;
  };
  FrameHeader header;
  header.kind = FrameKind::kChunk;
  header.total_bytes = 3 * kSharedBlockBytes;
  for (uint32_t block = 0; block < 3; ++block) {
    header.chunk = {block, 1, block * kSharedBlockBytes, kSharedBlockBytes};
    SendFrame(1, 0, header);
  }
  FrameHeader ping;
  ping.kind = FrameKind::kPing;
  for (size_t i = 0; i <= kPostedFrames; ++i) SendFrame(1, 0, ping);  // afterwards the chunks have been handled
  std::vector<absl::Status> got(2);
  RunAll([&](int i) {
    char byte = 0;
    const IncomingPart in{1 - i, 0, &byte, 1};
    got[static_cast<size_t>(i)] = Join(i)->Exchange({2, 0, 0, 0}, "all-reduce", {}, {&in, 1});
  });
  EXPECT_EQ(got[0].message(), "a message of process 1: out of host memory");
  EXPECT_EQ(got[1].message(), "process 0 reports: a message of process 1: out of host memory");
  wires_.on_received = nullptr;
  ExchangeAll({1000, kPosted + 1});
}

// What a launch that failed for want of memory has counted is not lost: afterwards there is room as before.
TEST_F(MessageMeshTest, RoomIsNotLostWithoutMemory) {
  max_ahead_bytes_ = 8000;
  ConnectAll(2);
  const std::string data(3000, 'x');
  bool has_failed = true;
  for (int allocation = 0; has_failed; ++allocation) {
    ASSERT_LT(allocation, 100);
    const auto sender = Join(0), receiver = Join(1);
    std::thread failing([&] {
      std::this_thread::sleep_for(milliseconds(2));
      receiver->Fail(absl::AbortedError("it went wrong"));
    });
    std::vector<OutgoingPart> out;
    for (int part = 0; part < 4; ++part) out.push_back({1, part, data.data(), 3000});
    allocations_left = allocation;
    const absl::Status got = CatchExceptions([&] { return sender->Exchange({1, 0, 0, 0}, "send", out, {}); });
    has_failed = allocations_left < 0;
    allocations_left = -1;
    failing.join();
    EXPECT_FALSE(got.ok());
  }
  bool has_room = false;
  EXPECT_TRUE(HoldsSoon([&] {
    if (has_room) return true;
    const auto sender = Join(0), receiver = Join(1);
    EXPECT_TRUE(sender->Post({2, 0, 0, 0}, "send", 1, data).ok());
    has_room = meshes_[0]->CountKept() == 0;
    return has_room;
  }));
}

// The same for a message that stays with its sender: it is announced, or the launch fails.
TEST_F(MessageMeshTest, AMessageIsPostedOrItsLaunchFails) {
  ConnectAll(2);
  bool has_failed = true;
  for (int allocation = 0; has_failed; ++allocation) {
    ASSERT_LT(allocation, 100);
    const auto sender = Join(0), receiver = Join(1);
    std::string data(1000000, 'x'), to(1000000, '.');
    allocations_left = allocation;
    const absl::Status posted = CatchExceptions([&] { return sender->Post({1, 0, 0, 0}, "send", 1, std::move(data)); });
    has_failed = allocations_left < 0;
    allocations_left = -1;
    const IncomingPart in{0, 0, to.data(), 1000000};
    const absl::Status got = receiver->Exchange({1, 0, 0, 0}, "receive", {}, {&in, 1});
    EXPECT_EQ(got.ok(), posted.ok()) << allocation << " " << posted << " " << got;
    EXPECT_EQ(posted.code(), posted.ok() ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted) << posted;
    EXPECT_TRUE(HoldsSoon([&] { return meshes_[0]->CountKept() == 0; }));
  }
}

// A sender does not go on without limit. The launch fails, and the receiver does not give up the sender.
TEST_F(MessageMeshTest, ASenderKeepsLimitedMessages) {
  max_ahead_bytes_ = 16384;
  ConnectAll(2);
  for (const int64_t bytes : {3000, 1000000}) {
    {
      const auto sender = Join(0);
      absl::Status posted;
      int64_t count = 0;
      for (; posted.ok() && count < 1000; ++count)
        posted = sender->Post({count, 0, 0, 0}, "send", 1, std::string(static_cast<size_t>(bytes), 'x'));
      EXPECT_EQ(posted.code(), absl::StatusCode::kResourceExhausted) << posted;
      EXPECT_THAT(std::string(posted.message()), HasSubstr("send of jit_f: process 1 does not take its data"));
      EXPECT_EQ(count, bytes == 3000 ? 69 : 5);
      char byte = 0;
      const IncomingPart in{0, 0, &byte, 1};
      EXPECT_THAT(std::string(Join(1)->Exchange({5000, 0, 0, 0}, "receive", {}, {&in, 1}).message()),
                  HasSubstr("process 0 reports: send of jit_f: process 1 does not take its data"));
    }
    EXPECT_TRUE(HoldsSoon([&] { return meshes_[0]->CountKept() == 0; }));
    ExchangeAll({1000, kPosted + 1});
  }
}

// A message that is being transferred when its receiver is lost is freed when the connection ends or it is taken.
TEST_F(MessageMeshTest, AMessageInTransferIsFreedWhenItsReceiverIsLost) {
  for (const bool is_connected : {false, true}) {
    meshes_.clear();
    wires_.closed.clear();
    ConnectAll(2);
    const auto sender = Join(0);
    EXPECT_TRUE(sender->Post({1, 0, 0, 0}, "send", 1, std::string(1000000, 'x')).ok());
    FrameHeader ready;
    ready.kind = FrameKind::kReady;
    ready.slot = 99;
    SendFrame(1, 0, ready);
    EXPECT_TRUE(HoldsSoon([&] {
      std::lock_guard<std::mutex> lock(wires_.mu);
      return !wires_.sends[{0, 1, 99}].empty();
    }));
    if (!is_connected) {
      ShutDownProcess(1);
    } else {
      meshes_[0]->ReportFailure(1, "the host says so");
      EXPECT_EQ(meshes_[0]->CountKept(), 1u);
      std::string to(1000000, '.');
      BackplaneTransfer* transfer = nullptr;
      ASSERT_EQ(Start(wires_.meshes[1], false, 0, 99, nullptr, to.data(), to.size(), &transfer), 0);
      FrameHeader taken;
      taken.kind = FrameKind::kTaken;
      SendFrame(1, 0, taken);
    }
    EXPECT_TRUE(HoldsSoon([&] { return meshes_[0]->CountKept() == 0; }));
  }
}

// Also while it grows, and when there is no memory to grow.
TEST(PartTableTest, KeepsAllEntries) {
  for (const bool has_memory : {true, false}) {
    std::vector<PartState> parts(1000);
    PartTable<PartState> table;
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].key = {
          {1, 2, 3, static_cast<int64_t>(i % 7)}, static_cast<int64_t>(i / 10), static_cast<int32_t>(i % 10)};
      if (!has_memory) allocations_left = 0;
      table.Add(&parts[i]);
      allocations_left = -1;
    }
    const PartKey missing{{1, 2, 3, 8}, 0, 0};
    EXPECT_EQ(table.Find(missing), nullptr);
    EXPECT_EQ(table.Remove(missing), nullptr);
    for (PartState& part : parts) ASSERT_EQ(table.Find(part.key), &part);
    for (size_t i = 0; i < parts.size(); i += 2) ASSERT_EQ(table.Remove(parts[i].key), &parts[i]);
    for (size_t i = 0; i < parts.size(); ++i) ASSERT_EQ(table.Find(parts[i].key), i % 2 == 0 ? nullptr : &parts[i]);
    int left = 0;
    table.RemoveAll([&](PartState*) { ++left; });
    EXPECT_EQ(left, 500);
    EXPECT_EQ(table.Find(parts[1].key), nullptr);
  }
}

}  // namespace
}  // namespace backplane
