// Tests the messages between processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/host_storage.h"
#include "sdk/backend/host_topology.h"
#include "sdk/backend/processes/exchange_transfers.h"
#include "sdk/backend/processes/frame.h"
#include "sdk/backend/processes/mesh_fixture.h"
#include "sdk/backend/processes/message_mesh.h"
#include "sdk/backend/processes/process_group.h"

namespace backplane {
namespace {

TEST_F(MessageMeshTest, ExchangesPartsOfEverySize) {
  ConnectAll(3);
  for (int i : {0, 1, 2}) EXPECT_FALSE(meshes_[static_cast<size_t>(i)]->SharesMemoryWith((i + 1) % 3));
  ExchangeAll({1000, kPosted * 3, 1001, kPosted * 3 + 1, kPosted, kPosted + 1});
}

// From one byte more than a message on; one block and several; more than all blocks of a process; and with so few
// blocks that the rest goes in messages.
TEST_F(MessageMeshTest, SharedMemoryCarriesPartsOfEverySize) {
  for (const int64_t blocks : {32, 5, 1}) {
    meshes_.clear();
    wires_.closed.clear();
    shared_blocks_ = {blocks, 32, blocks};
    ConnectAll(3);
    for (int i : {0, 1, 2}) {
      for (int p : {0, 1, 2}) EXPECT_EQ(meshes_[static_cast<size_t>(i)]->SharesMemoryWith(p), p != i);
    }
    ExchangeAll({1000, 65535, 65536, kPosted + 1, kSharedBlockBytes, kSharedBlockBytes + 1, 6 * kSharedBlockBytes + 7,
                 2 * kSharedBlockBytes, 12});
  }
}

// A message may come before, while and after this process starts its launch.
TEST_F(MessageMeshTest, NothingIsLostWhileALaunchStarts) {
  shared_blocks_ = {8, 8, 8};
  ConnectAll(3);
  std::vector<absl::Status> got(3);
  RunAll([&](int i) {
    std::string data(70000, 'x'), to(data.size(), '.');
    for (int launch = 0; launch < 2000 && got[static_cast<size_t>(i)].ok(); ++launch) {
      const int64_t bytes = launch % 2 == 0 ? 1 : static_cast<int64_t>(data.size());
      const OutgoingPart out{(i + 1) % 3, 0, data.data(), bytes};
      const IncomingPart in{(i + 2) % 3, 0, to.data(), bytes};
      const auto exchange = Join(i, 1, milliseconds(20000));
      got[static_cast<size_t>(i)] = exchange->Exchange({1, 0, 0, 0}, "permute", {&out, 1}, {&in, 1});
    }
  });
  for (const absl::Status& s : got) EXPECT_TRUE(s.ok()) << s;
}

// What a process puts into its ring that does not keep to the rules ends the connection with it.
TEST_F(MessageMeshTest, InvalidMessagesInARingAreRefused) {
  const auto make = [](FrameKind kind, uint16_t process, size_t size, uint64_t payload) {
    FrameHeader header;
    header.kind = kind;
    header.process = process;
    header.payload_bytes = payload;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.resize(size, 'x');
    return bytes;
  };
  constexpr size_t kHeader = sizeof(FrameHeader);
  std::string wrong_magic = make(FrameKind::kData, 1, kHeader + 4, 4);
  wrong_magic[0] = 'x';
  for (const std::string& message :
       {make(FrameKind::kData, 1, kHeader - 1, 0), make(FrameKind::kData, 0, kHeader + 4, 4), wrong_magic,
        make(FrameKind::kData, 1, kHeader + 4, 5), make(FrameKind::kAbort, 1, kHeader + 4, 4),
        make(FrameKind::kGoodbye, 1, kHeader, 0)}) {
    meshes_.clear();
    wires_.closed.clear();
    shared_blocks_ = {8, 8};
    hostile = *SharedMemory::Create(1, 2, 8);
    ConnectAll(2);
    ASSERT_TRUE(meshes_[0]->SharesMemoryWith(1));
    char to[4];
    const IncomingPart in{1, 0, to, 4};
    const auto exchange = Join(0);
    ASSERT_TRUE(hostile->WriteMessage(
        0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(message.data()), message.size()), {}));
    const absl::Status got = exchange->Exchange({1, 0, 0, 0}, "all-reduce", {}, {&in, 1});
    EXPECT_EQ(got.code(), absl::StatusCode::kUnavailable) << got;
    EXPECT_THAT(std::string(got.message()), HasSubstr("process 1 is lost: it sent an invalid message"));
  }
}

// A process without shared memory is reached in messages; the others still share.
TEST_F(MessageMeshTest, AProcessMayShareNoMemory) {
  shared_blocks_ = {32, 0, 32};
  ConnectAll(3);
  EXPECT_TRUE(meshes_[0]->SharesMemoryWith(2));
  EXPECT_TRUE(meshes_[2]->SharesMemoryWith(0));
  for (int i : {0, 2}) {
    EXPECT_FALSE(meshes_[static_cast<size_t>(i)]->SharesMemoryWith(1));
    EXPECT_FALSE(meshes_[1]->SharesMemoryWith(i));
  }
  ExchangeAll({1000, 2 * kSharedBlockBytes + 1, 65536});
}

// Arrays of unequal sizes, and a process that is lost while others wait for its blocks, are errors of all, as without
// shared memory. Blocks that nobody has read are used again, if the reader is there.
TEST_F(MessageMeshTest, FailuresEndWaitingForSharedMemory) {
  shared_blocks_ = {8, 8};
  ConnectAll(2);
  std::string data(static_cast<size_t>(20 * kSharedBlockBytes), 'x');
  std::vector<absl::Status> got(2);
  for (int round = 0; round < 5; ++round) {
    RunAll([&](int i) {
      std::string to(data.size(), '.');
      const int64_t bytes = (9 + i) * kSharedBlockBytes;
      const OutgoingPart out{1 - i, 0, data.data(), bytes};
      const IncomingPart in{1 - i, 0, to.data(), bytes};
      if (i == round % 2) std::this_thread::sleep_for(milliseconds(5));
      got[static_cast<size_t>(i)] = Join(i)->Exchange({1, 0, 0, 0}, "all-reduce", {&out, 1}, {&in, 1});
    });
    for (const absl::Status& s : got) EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
  }
  ExchangeAll({9 * kSharedBlockBytes, 70000});
  // Process 1 never comes. Process 0 has filled its blocks and waits for room.
  const OutgoingPart out{1, 0, data.data(), static_cast<int64_t>(data.size())};
  got[0] = Join(0, 1, milliseconds(50))->Exchange({1, 0, 0, 0}, "all-gather", {&out, 1}, {});
  EXPECT_EQ(got[0].code(), absl::StatusCode::kDeadlineExceeded) << got[0];
  EXPECT_THAT(std::string(got[0].message()), HasSubstr("all-gather of jit_f: process 1 did not answer"));
  EXPECT_FALSE(Join(1)->Exchange({1, 0, 0, 0}, "all-gather", {}, {}).ok());
  ExchangeAll({9 * kSharedBlockBytes});
  RunAll([&](int i) {
    const auto exchange = Join(i);
    if (i == 1) {
      std::this_thread::sleep_for(milliseconds(50));
      return ShutDownProcess(1);
    }
    got[0] = exchange->Exchange({1, 0, 0, 0}, "all-gather", {&out, 1}, {});
  });
  EXPECT_THAT(std::string(got[0].message()), HasSubstr("all-gather of jit_f: process 1 is lost"));
}

// What a process sends that does not keep to the rules.
TEST_F(MessageMeshTest, InvalidChunksAreRefused) {
  const auto chunk = [](uint32_t block, int64_t position, int64_t bytes, uint64_t total) {
    FrameHeader header;
    header.kind = FrameKind::kChunk;
    header.total_bytes = total;
    header.chunk = {block, 1, position, bytes};
    return header;
  };
  constexpr int64_t kBlock = kSharedBlockBytes;
  for (const FrameHeader& header :
       {chunk(8, 0, 10, 10), chunk(UINT32_MAX, 0, 10, 10), chunk(0, 0, 0, 10), chunk(0, 0, -1, 10),
        chunk(0, 0, kBlock + 1, 2 * kBlock), chunk(0, 1, 10, 10), chunk(0, -1, 10, 10), chunk(0, INT64_MAX, 10, 100),
        chunk(0, 0, 11, 10), chunk(0, 5, 10, 20)}) {
    for (const bool is_expected : {false, true}) {
      meshes_.clear();
      wires_.closed.clear();
      shared_blocks_ = {8, 8};
      ConnectAll(2);
      std::string to(20, '.');
      const IncomingPart in{1, 0, to.data(), static_cast<int64_t>(header.total_bytes)};
      const auto exchange = Join(0);
      const auto send = [&] { SendFrame(1, 0, header); };
      absl::Status got;
      if (is_expected && header.total_bytes > 20) continue;
      if (!is_expected) send();
      std::thread waiting([&] { got = exchange->Exchange({1, 0, 0, 0}, "all-reduce", {}, {&in, 1}); });
      if (is_expected) {
        std::this_thread::sleep_for(milliseconds(5));
        send();
      }
      waiting.join();
      EXPECT_EQ(got.code(), absl::StatusCode::kUnavailable) << got;
      EXPECT_THAT(std::string(got.message()), HasSubstr("process 1 is lost: it sent an"));
      EXPECT_EQ(to, std::string(20, '.'));
    }
  }
}

TEST_F(MessageMeshTest, AnotherTokenIsRefused) {
  ConnectAll(2, "another");
  EXPECT_EQ(status_[0].code(), absl::StatusCode::kPermissionDenied) << status_[0];
  EXPECT_THAT(std::string(status_[0].message()), HasSubstr("does not belong to this job"));
}

TEST_F(MessageMeshTest, OtherProgramsAndSizesAreErrorsOfBoth) {
  ConnectAll(2);
  std::vector<absl::Status> got(2);
  RunAll([&](int i) {
    char byte = 0;
    const OutgoingPart out{1 - i, 0, &byte, 1};
    const IncomingPart in{1 - i, 0, &byte, 1};
    got[i] = Join(i, static_cast<uint64_t>(i), milliseconds(60000), i == 0 ? "jit_f" : "jit_g")
                 ->Exchange({1, 0, 0, 0}, "all-reduce", {&out, 1}, {&in, 1});
  });
  for (const absl::Status& s : got) {
    EXPECT_THAT(std::string(s.message()), HasSubstr("jit_f"));
    EXPECT_THAT(std::string(s.message()), HasSubstr("jit_g"));
  }
  // One name, and something else differs.
  const LaunchProgram plain{"jit_f", 1, "f32[2]", 5, 3, 7};
  const struct {
    LaunchProgram other;
    const char* words;
  } cases[] = {{{"jit_f", 2, "f32[4]", 6, 3, 7}, "the parameters are f32[2] and f32[4]"},
               {{"jit_f", 2, "f32[2]", 6, 3, 7}, "results or later parameters"},
               {{"jit_f", 2, "f32[2]", 5, 4, 8}, "3 and 4 instructions"},
               {{"jit_f", 2, "f32[2]", 5, 3, 8}, "the operations differ"},
               {{"jit_f", 2, "f32[2]", 5, 3, 7}, "constants, attributes or operands"}};
  for (const auto& c : cases) {
    RunAll([&](int i) {
      char byte = 0;
      const OutgoingPart out{1 - i, 0, &byte, 1};
      const IncomingPart in{1 - i, 0, &byte, 1};
      got[i] = meshes_[static_cast<size_t>(i)]
                   ->JoinLaunch({0, 1}, i == 0 ? plain : c.other, milliseconds(60000), nullptr)
                   ->Exchange({1, 0, 0, 0}, "all-reduce", {&out, 1}, {&in, 1});
    });
    EXPECT_TRUE(absl::StrContains(got[0].message(), c.words) ||
                absl::StrContains(got[0].message(), "the parameters are f32[4] and f32[2]") ||
                absl::StrContains(got[0].message(), "4 and 3 instructions"))
        << got[0];
    EXPECT_THAT(std::string(got[1].message()), HasSubstr("two programs of one name")) << got[1];
  }
  RunAll([&](int i) {
    char bytes[2] = {};
    const OutgoingPart out{1 - i, 0, bytes, 1 + i};
    const IncomingPart in{1 - i, 0, bytes, 1 + i};
    got[i] = Join(i)->Exchange({1, 0, 0, 0}, "all-reduce", {&out, 1}, {&in, 1});
  });
  for (const absl::Status& s : got) EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
}

TEST_F(MessageMeshTest, AFailureAndALostProcessEndTheWaiting) {
  ConnectAll(3);
  std::vector<absl::Status> got(3);
  RunAll([&](int i) {
    const auto exchange = Join(i);
    if (i == 2) return exchange->Fail(absl::AbortedError("it went wrong"));
    char byte = 0;
    const IncomingPart in{2, 0, &byte, 1};
    got[i] = exchange->Exchange({1, 0, 0, 0}, "all-reduce", {}, {&in, 1});
  });
  for (int i : {0, 1}) {
    EXPECT_EQ(got[i].code(), absl::StatusCode::kAborted);
    EXPECT_EQ(got[i].message(), "process 2 reports: it went wrong");
  }
  RunAll([&](int i) {
    const auto exchange = Join(i);
    if (i == 2) {
      ShutDownProcess(2);
      return;
    }
    char byte = 0;
    const IncomingPart in{2, 0, &byte, 1};
    got[i] = exchange->Exchange({1, 0, 0, 0}, "all-reduce", {}, {&in, 1});
  });
  for (int i : {0, 1}) EXPECT_THAT(std::string(got[i].message()), HasSubstr("process 2 is lost"));
}

// A process that answers but does not come is named after the time limit.
TEST_F(MessageMeshTest, AMissingProcessIsNamed) {
  ConnectAll(2);
  char byte = 0;
  const IncomingPart in{1, 0, &byte, 1};
  const absl::Status got = Join(0, 1, milliseconds(10))->Exchange({1, 0, 0, 0}, "all-reduce", {}, {&in, 1});
  EXPECT_EQ(got.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(got.message()), HasSubstr("all-reduce of jit_f: process 1 did not answer"));
  // The other process learns it when it starts the launch.
  EXPECT_THAT(std::string(Join(1)->Exchange({1, 0, 0, 0}, "all-reduce", {}, {}).message()), HasSubstr("process 0"));
}

// A client of one device in each of two processes. Its "device" memory 3 * d is not addressed in place.
class TwoProcessClient : public Client {
 public:
  const Topology& topology() const override { return topology_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t, size_t bytes) override {
    return AllocateHostStorage(bytes, nullptr);
  }
  bool IsHostMemory(int32_t memory) const override { return memory % 3 != 0; }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable>,
                                                         const LoadOptions&) override {
    return absl::UnimplementedError("load");
  }

 private:
  const Topology topology_ = HostTopology("v", 2);
};

// Device d belongs to process d.
class MeshService : public LaunchExchangeService {
 public:
  MeshService(MessageMesh* mesh, int32_t process) : mesh_(mesh), process_(process) {}
  int32_t process() const override { return process_; }
  int32_t GetProcess(int32_t device) const override { return device; }
  std::shared_ptr<LaunchExchange> JoinLaunch(std::vector<int32_t> processes, const LaunchProgram& program,
                                             milliseconds limit,
                                             std::function<void(const absl::Status&)> on_failure) override {
    return mesh_->JoinLaunch(std::move(processes), program, limit, std::move(on_failure));
  }

 private:
  MessageMesh* const mesh_;
  const int32_t process_;
};

class ExchangeTransfersTest : public MessageMeshTest {
 protected:
  ExchangeTransfersTest() {
    ConnectAll(2);
    for (int i : {0, 1}) {
      auto service = std::make_shared<MeshService>(meshes_[i].get(), i);
      transfers_.push_back(std::make_unique<ExchangeTransfers>(&client_, std::move(service), limit_));
    }
  }
  DeviceArray MakeArray(int32_t memory, int32_t first, int64_t count = 6) {
    DeviceArray array{Shape(PrimitiveType::kS32, {2, count / 2}), memory, nullptr, Event()};
    array.shape.set_row_major();
    array.storage = *client_.Allocate(memory, static_cast<size_t>(array.shape.byte_size()));
    for (int64_t i = 0; i < count; ++i) Values(array)[i] = first < 0 ? -1 : first + static_cast<int32_t>(i);
    return array;
  }
  static int32_t* Values(const DeviceArray& array) { return static_cast<int32_t*>(array.storage->data()); }

  const milliseconds limit_{60000};
  TwoProcessClient client_;
  std::vector<std::unique_ptr<ExchangeTransfers>> transfers_;
};

// Between all kinds of memory, small and large, in both directions at the same time; receives may be asked for first.
TEST_F(ExchangeTransfersTest, ArraysArrive) {
  for (const int64_t count : {int64_t{6}, int64_t{400000}}) {
    for (const auto& [from, to] : {std::pair(0, 3), std::pair(1, 4), std::pair(0, 4), std::pair(1, 3)}) {
      const DeviceArray there = MakeArray(to, -1, count), back = MakeArray(from, -1, count);
      const DeviceArray src = MakeArray(from, 100, count), answer = MakeArray(to, 7000, count);
      const Event received = transfers_[1]->StartReceive(there, {0, 1, 5});
      const Event answered = transfers_[1]->StartSend(answer, {1, 0, 6});
      EXPECT_TRUE(transfers_[0]->StartSend(src, {0, 1, 5}).Await().ok());
      EXPECT_TRUE(transfers_[0]->StartReceive(back, {1, 0, 6}).Await().ok());
      EXPECT_TRUE(received.Await().ok());
      EXPECT_TRUE(answered.Await().ok());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(Values(there)[i], 100 + i);
        ASSERT_EQ(Values(back)[i], 7000 + i);
      }
    }
  }
}

// A transfer carries the values; each side has its own layout.
TEST_F(ExchangeTransfersTest, LayoutsMayDiffer) {
  const DeviceArray src = MakeArray(1, 10);
  DeviceArray dst = MakeArray(4, -1);
  dst.shape.mutable_layout().minor_to_major = {0, 1};
  const Event received = transfers_[1]->StartReceive(dst, {0, 1, 5});
  EXPECT_TRUE(transfers_[0]->StartSend(src, {0, 1, 5}).Await().ok());
  ASSERT_TRUE(received.Await().ok());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Values(dst)[i % 3 * 2 + i / 3], 10 + i);
}

// The error of the sent array, or of the memory for it, reaches the other side; the next transfer is not affected.
TEST_F(ExchangeTransfersTest, ErrorsReachTheOtherProcess) {
  DeviceArray wrong = MakeArray(1, 0);
  wrong.ready = Event::Ready(absl::DataLossError("it is gone"));
  Event received = transfers_[1]->StartReceive(MakeArray(4, -1), {0, 1, 5});
  EXPECT_EQ(transfers_[0]->StartSend(wrong, {0, 1, 5}).Await().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(received.Await(), absl::DataLossError("process 0 reports: it is gone"));

  DeviceArray no_memory = MakeArray(4, -1);
  no_memory.storage = nullptr;
  no_memory.ready = Event::Ready(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(transfers_[1]->StartReceive(no_memory, {0, 1, 6}).Await(), absl::ResourceExhaustedError("full"));
  // An array that is sent at once may have left before the report arrives.
  (void)transfers_[0]->StartSend(MakeArray(1, 0), {0, 1, 6}).Await();

  const DeviceArray dst = MakeArray(4, -1);
  received = transfers_[1]->StartReceive(dst, {0, 1, 7});
  EXPECT_TRUE(transfers_[0]->StartSend(MakeArray(1, 20), {0, 1, 7}).Await().ok());
  EXPECT_TRUE(received.Await().ok());
  EXPECT_EQ(Values(dst)[5], 25);
}

TEST_F(ExchangeTransfersTest, OtherKeysAndShapesAreErrorsOfBoth) {
  Event received = transfers_[1]->StartReceive(MakeArray(4, -1, 400000), {0, 1, 5});
  const absl::Status sent = transfers_[0]->StartSend(MakeArray(1, 0, 400000), {0, 1, 6}).Await();
  for (const absl::Status& s : {sent, received.Await()}) {
    EXPECT_THAT(std::string(s.message()), HasSubstr("transfer 5 of s32[2,200000] from device 0 to device 1"));
    EXPECT_THAT(std::string(s.message()), HasSubstr("transfer 6"));
  }
  received = transfers_[1]->StartReceive(MakeArray(4, -1), {0, 1, 7});
  (void)transfers_[0]->StartSend(MakeArray(1, 0, 8), {0, 1, 7});
  EXPECT_THAT(std::string(received.Await().message()), HasSubstr("s32[2,4]"));
}

TEST_F(ExchangeTransfersTest, ALostProcessEndsAllTransfers) {
  std::vector<Event> events;
  for (int i = 0; i < 3; ++i) events.push_back(transfers_[1]->StartReceive(MakeArray(4, -1), {0, 1, i}));
  ShutDownProcess(0);
  for (const Event& event : events) EXPECT_THAT(std::string(event.Await().message()), HasSubstr("process 0 is lost"));
}

TEST_F(ExchangeTransfersTest, TransfersBehindALateOneEndWithIt) {
  ExchangeTransfers receiver(&client_, std::make_shared<MeshService>(meshes_[1].get(), 1), milliseconds(10));
  std::vector<Event> events;
  for (int i = 0; i < 3; ++i) events.push_back(receiver.StartReceive(MakeArray(4, -1), {0, 1, i}));
  for (const Event& event : events) {
    EXPECT_EQ(event.Await().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(event.Await().message()), HasSubstr("transfer 0"));
  }
  // The sender learns it, and the next one is not affected.
  for (int i = 0; i < 3; ++i) (void)transfers_[0]->StartSend(MakeArray(1, 0), {0, 1, i}).Await();
  const DeviceArray dst = MakeArray(4, -1);
  const Event received = transfers_[1]->StartReceive(dst, {0, 1, 3});
  EXPECT_TRUE(transfers_[0]->StartSend(MakeArray(1, 20), {0, 1, 3}).Await().ok());
  EXPECT_TRUE(received.Await().ok());
  EXPECT_EQ(Values(dst)[5], 25);
}

TEST_F(ExchangeTransfersTest, DevicesAreChecked) {
  for (const auto& [source, target] : {std::pair(0, 0), std::pair(1, 0), std::pair(0, 2), std::pair(-1, 1)}) {
    EXPECT_EQ(transfers_[0]->StartSend(MakeArray(1, 0), {source, target, 1}).Await().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(SharedMemoryTest, OnlyTheDescribedSegmentIsOpened) {
  auto a = *SharedMemory::Create(0, 2, 4), b = *SharedMemory::Create(1, 2, 4), c = *SharedMemory::Create(1, 3, 4);
  ASSERT_TRUE(a->Open(1, b->Describe()).ok());
  EXPECT_TRUE(a->Reaches(1));
  // The description of another segment under the file of this one, as in another container: the random number differs.
  const auto edit = [](const std::string& description, int field, absl::string_view bytes, int64_t number) {
    WireWriter out;
    WireReader in(description);
    while (in.Next()) {
      if (in.field == 1 || in.field == 5 || in.field == 6)
        out.Bytes(in.field, static_cast<int>(in.field) == field ? bytes : in.bytes);
      else
        out.Varint(in.field, static_cast<int>(in.field) == field ? static_cast<uint64_t>(number) : in.value);
    }
    return out.Take();
  };
  const std::string good = b->Describe();
  const struct {
    std::string description;
    absl::StatusCode code;
    const char* words;
  } cases[] = {
      {edit(good, 5, std::string(16, 'x'), 0), absl::StatusCode::kPermissionDenied, "of another process"},
      {edit(good, 5, "x", 0), absl::StatusCode::kInvalidArgument, "invalid"},
      {edit(good, 1, "another", 0), absl::StatusCode::kUnavailable, "another machine"},
      {edit(good, 2, "", 4194304), absl::StatusCode::kUnavailable, "No such file"},
      {edit(good, 3, "", 0), absl::StatusCode::kUnavailable, "another file"},
      {edit(good, 4, "", 5), absl::StatusCode::kPermissionDenied, "not the segment"},
      {edit(good, 4, "", 0), absl::StatusCode::kInvalidArgument, "invalid"},
      {edit(good, 4, "", -1), absl::StatusCode::kInvalidArgument, "invalid"},
      {edit(good, 4, "", 257), absl::StatusCode::kInvalidArgument, "invalid"},
      {edit(good, 6, "another", 0), absl::StatusCode::kOk, ""},
      {c->Describe(), absl::StatusCode::kPermissionDenied, "not the segment"},  // of a job of three processes
      {good.substr(0, good.size() - 1), absl::StatusCode::kInvalidArgument, "invalid"},
      {"", absl::StatusCode::kInvalidArgument, "invalid"},
  };
  for (const auto& test : cases) {
    auto reader = *SharedMemory::Create(0, 2, 4);
    const absl::Status got = reader->Open(1, test.description);
    EXPECT_EQ(got.code(), test.code) << got;
    EXPECT_THAT(std::string(got.message()), HasSubstr(test.words));
    EXPECT_EQ(reader->Reaches(1), got.ok());
    EXPECT_FALSE(reader->HasRings(1));  // at most one of another network is opened
  }
  EXPECT_FALSE(SharedMemory::Create(0, 2, 0).ok());
  EXPECT_FALSE(SharedMemory::Create(0, 2, kMaxSharedBlocks + 1).ok());
}

// A file of the right name and size that is open to others, or whose size can change, is refused.
TEST(SharedMemoryTest, OnlySealedFilesOfTheOwnerAreOpened) {
  auto reader = *SharedMemory::Create(0, 2, 4);
  const std::string own = reader->Describe();
  for (const bool is_sealed : {false, true}) {
    for (const mode_t mode : {0600, 0640, 0666}) {
      const int file = memfd_create("backplane-collectives", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      struct stat status {};
      WireReader in(own);
      WireWriter out;
      std::string nonce;
      while (in.Next()) {
        if (in.field == 3) {
          ASSERT_EQ(fstat(static_cast<int>(in.value), &status), 0);
          out.Varint(3, static_cast<uint64_t>(file));
        } else if (in.field == 1 || in.field == 5 || in.field == 6) {
          out.Bytes(in.field, in.bytes);
          if (in.field == 5) nonce = std::string(in.bytes);
        } else {
          out.Varint(in.field, in.value);
        }
      }
      ASSERT_EQ(ftruncate(file, status.st_size), 0);
      ASSERT_EQ(pwrite(file, nonce.data(), nonce.size(), 0), static_cast<ssize_t>(nonce.size()));
      ASSERT_EQ(fchmod(file, mode), 0);
      if (is_sealed) {
        ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
      }
      EXPECT_EQ(reader->Open(1, out.Take()).ok(), is_sealed && mode == 0600);
      close(file);
    }
  }
}

// Nobody else can write to the memory, nothing of it has a name, and it is the owner's alone.
TEST(SharedMemoryTest, OthersCannotWrite) {
  auto shared = *SharedMemory::Create(0, 2, 4);
  const std::string description = shared->Describe();
  WireReader in(description);
  uint64_t number = 0;
  while (in.Next()) number = in.field == 3 ? in.value : number;
  const int file = open(absl::StrCat("/proc/self/fd/", number).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
  EXPECT_LT(pwrite(file, "x", 1, 0), 0);
  EXPECT_NE(ftruncate(file, 0), 0);
  struct stat status {};
  ASSERT_EQ(fstat(file, &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(status.st_nlink, 0u);
  close(file);
}

// The two sides of a ring as one process sees them, in memory of the test.
struct RingPair {
  std::unique_ptr<MessageRing> ring = std::make_unique<MessageRing>();
  std::unique_ptr<MessageRingReader> reader = std::make_unique<MessageRingReader>();
  std::vector<std::byte> to = std::vector<std::byte>(MessageRing::kMaxRecordBytes);

  bool Write(absl::string_view first, absl::string_view second = "") {
    const auto bytes = [](absl::string_view s) {
      return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(s.data()), s.size());
    };
    return WriteRecord(*ring, *reader, bytes(first), bytes(second));
  }
  absl::StatusOr<std::string> Read() {
    const absl::StatusOr<size_t> n = ReadRecord(*ring, *reader, to.data());
    if (!n.ok()) return n.status();
    return std::string(reinterpret_cast<const char*>(to.data()), *n);
  }
  void PutSize(size_t slot, uint32_t bytes) {
    std::memcpy(ring->slots + slot * MessageRing::kSlotBytes, &bytes, sizeof bytes);
  }
};

TEST(MessageRingTest, KeepsRecordsOfAllSizesInOrder) {
  RingPair p;
  // Counters wrap around, too.
  p.ring->head = UINT32_MAX - 2000;
  p.reader->tail = UINT32_MAX - 2000;
  std::deque<std::string> written;
  uint32_t random = 1;
  int64_t refused = 0, total = 0;
  const auto read = [&] {
    const absl::StatusOr<std::string> got = p.Read();
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(*got, written.empty() ? "" : written.front());
    if (!written.empty()) written.pop_front();
  };
  for (int i = 0; i < 20000; ++i) {
    random = random * 1664525 + 1013904223;
    const size_t sizes[] = {1 + (random >> 8) % 59,      60, 61, 124, 1 + (random >> 8) % MessageRing::kMaxRecordBytes,
                            MessageRing::kMaxRecordBytes};
    const std::string record(sizes[(random >> 4) % 6], static_cast<char>(i));
    const size_t cut = record.size() / 3;
    if (p.Write(absl::string_view(record).substr(0, cut), absl::string_view(record).substr(cut))) {
      written.push_back(record);
      ++total;
    } else {
      ASSERT_GE(written.size(), 2u);
      ++refused;
      read();
    }
    if (i % 3 == 0) read();
  }
  while (!written.empty()) read();
  read();
  EXPECT_GT(refused, 100);
  EXPECT_GT(total, 10000);
}

// Both sides use the same addresses here, so that ThreadSanitizer sees an access that no order guards. Records of all
// sizes fill the ring again and again, so the writer reuses slots that the reader has just released.
TEST(MessageRingTest, AWriterAndAReaderShareARing) {
  RingPair p;
  constexpr uint32_t kRecords = 30000;
  const auto record_for = [](uint32_t i) {
    const size_t size = i % 100 == 0 ? MessageRing::kMaxRecordBytes : 4 + i * 37 % 3000;
    std::string record(size, static_cast<char>(i));
    std::memcpy(record.data(), &i, sizeof i);
    return record;
  };
  std::atomic<bool> failed{false};
  std::thread writer([&] {
    for (uint32_t i = 0; i < kRecords; ++i) {
      const std::string record = record_for(i);
      while (!p.Write(absl::string_view(record).substr(0, 4), absl::string_view(record).substr(4)) && !failed)
        std::this_thread::yield();
    }
  });
  uint32_t read = 0, wrong = 0;
  while (read < kRecords) {
    const absl::StatusOr<std::string> got = p.Read();
    if (!got.ok()) break;
    if (got->empty()) {
      AwaitRecord(*p.ring, *p.reader, milliseconds(100));
      continue;
    }
    if (*got != record_for(read)) ++wrong;
    ++read;
  }
  failed = read < kRecords;
  writer.join();
  EXPECT_EQ(read, kRecords);
  EXPECT_EQ(wrong, 0u);
}

TEST(MessageRingTest, InvalidContentsAreErrors) {
  for (const uint32_t size : {0u, static_cast<uint32_t>(MessageRing::kMaxRecordBytes) + 1, 61u, MessageRing::kSkip}) {
    RingPair p;
    p.PutSize(0, size);
    p.ring->head = 1;
    EXPECT_EQ(p.Read().status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
  RingPair p;
  p.ring->head = MessageRing::kSlots + 1;
  EXPECT_FALSE(p.Read().ok());
  p.ring->head = UINT32_MAX;
  EXPECT_FALSE(p.Read().ok());
  // A record beyond the end of the slots, and two skips.
  p.ring->head = MessageRing::kSlots + 10;
  p.reader->tail = MessageRing::kSlots - 1;
  p.PutSize(MessageRing::kSlots - 1, 100);
  EXPECT_FALSE(p.Read().ok());
  p.PutSize(MessageRing::kSlots - 1, MessageRing::kSkip);
  p.PutSize(0, MessageRing::kSkip);
  EXPECT_FALSE(p.Read().ok());
  p.PutSize(0, 3);
  EXPECT_EQ(p.Read()->size(), 3u);
  // A reader that claims what was never written.
  p.reader->tail = MessageRing::kSlots + 11;
  EXPECT_FALSE(p.Write("x"));
}

// Each side sleeps until the other one has answered, so a lost wakeup shows as a pause of a second.
TEST(SharedMemoryTest, MessagesWakeTheReader) {
  auto a = *SharedMemory::Create(0, 2, 1), b = *SharedMemory::Create(1, 2, 1);
  ASSERT_TRUE(a->Open(1, b->Describe()).ok());
  ASSERT_TRUE(b->Open(0, a->Describe()).ok());
  ASSERT_TRUE(a->HasRings(1));
  constexpr int kRounds = 20000;
  std::atomic<int> late{0};
  const auto run = [&](SharedMemory& own, int32_t peer) {
    std::vector<std::byte> to(MessageRing::kMaxRecordBytes);
    for (int i = 0; i < kRounds; ++i) {
      const auto sent = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&i), sizeof i);
      const auto send = [&] { EXPECT_TRUE(own.WriteMessage(peer, sent, {})); };
      if (peer == 0) send();
      const auto start = std::chrono::steady_clock::now();
      size_t got = 0;
      while ((got = own.ReadMessage(peer, to.data()).value_or(0)) == 0) own.AwaitMessage(peer, milliseconds(1000));
      if (std::chrono::steady_clock::now() - start > milliseconds(900)) ++late;
      int value = -1;
      std::memcpy(&value, to.data(), sizeof value);
      EXPECT_EQ(got, sizeof i);
      EXPECT_EQ(value, i);
      if (peer == 1) send();
    }
  };
  std::thread other([&] { run(*b, 0); });
  run(*a, 1);
  other.join();
  EXPECT_LT(late, 5);
  EXPECT_FALSE(a->WriteMessage(1, std::vector<std::byte>(MessageRing::kMaxRecordBytes + 1), {}));
  // EndAwaiting ends a sleep.
  std::thread sleeper([&] { a->AwaitMessage(1, milliseconds(60000)); });
  std::atomic<bool> ended{false};
  std::thread waker([&] {
    while (!ended) {
      a->EndAwaiting(1);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  sleeper.join();
  ended = true;
  waker.join();
}

TEST(SharedMemoryTest, BlocksAreTakenWhenAllReadersHaveReleasedThem) {
  auto a = *SharedMemory::Create(0, 3, 2), b = *SharedMemory::Create(1, 3, 2), c = *SharedMemory::Create(2, 3, 2);
  for (SharedMemory* x : {b.get(), c.get()}) ASSERT_TRUE(x->Open(0, a->Describe()).ok());
  ASSERT_TRUE(a->Open(1, b->Describe()).ok());
  ASSERT_TRUE(a->Open(2, c->Describe()).ok());
  const std::vector<uint32_t> blocks = a->TakeBlocks(5);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_TRUE(a->TakeBlocks(1).empty());
  for (int round = 0; round < 3; ++round) {
    const SharedChunk chunk{blocks[1], a->StartUse(blocks[1], {1, 2}), 0, 5};
    std::memcpy(a->data(blocks[1]), "hello", 5);
    EXPECT_EQ(std::memcmp(b->Find(0, chunk), "hello", 5), 0);
    EXPECT_EQ(a->FindReaders(blocks[1]), (std::vector<int32_t>{1, 2}));
    b->Release(0, chunk);
    EXPECT_EQ(a->FindReaders(blocks[1]), std::vector<int32_t>{2});
    if (round == 2) break;
    c->Release(0, chunk);
    EXPECT_TRUE(a->FindReaders(blocks[1]).empty());
  }
  a->ReturnBlocks(blocks);
  EXPECT_EQ(a->TakeBlocks(5), std::vector<uint32_t>{blocks[0]});  // c still reads the other one
  EXPECT_EQ(b->Find(0, {2, 1, 0, 5}), nullptr);
  EXPECT_EQ(b->Find(2, {0, 1, 0, 5}), nullptr);
}

TEST(FrameTest, InvalidHeadersAreFound) {
  FrameHeader header;
  EXPECT_TRUE(header.IsValid());
  header.payload_bytes = kMaxPayloadBytes + 1;
  EXPECT_FALSE(header.IsValid());
  header = {};
  header.kind = static_cast<FrameKind>(kFrameKinds);
  EXPECT_FALSE(header.IsValid());
  header = {};
  header.program[sizeof header.program - 1] = 'x';
  EXPECT_FALSE(header.IsValid());
}

TEST(ProcessGroupTest, MergesTopologies) {
  const auto merged = MergeTopologies({HostTopology("v", 2), HostTopology("v", 1)});
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->devices.size(), 3u);
  EXPECT_EQ(merged->devices[2].id, 2);
  EXPECT_EQ(merged->devices[2].process_index, 1);
  EXPECT_EQ(merged->devices[2].local_hardware_id, 0);
  EXPECT_EQ(merged->devices[2].to_string, "CpuDevice(id=2)");
  EXPECT_EQ(merged->devices[2].memories.front(), 6);
  EXPECT_EQ(merged->memories[6].devices.front(), 2);
}

TEST(ProcessGroupTest, ReadsOptions) {
  NamedValues options = {{"node_id", int64_t{2}}, {"num_nodes", int64_t{3}}, {"other", true}};
  const auto read = TakeProcessOptions(&options);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->process, 2);
  EXPECT_EQ(options.size(), 1u);
  EXPECT_FALSE(read->shared_megabytes.has_value());
  options = {{"shared_memory_megabytes", int64_t{0}}};
  EXPECT_EQ(TakeProcessOptions(&options)->shared_megabytes, std::optional<int64_t>(0));
  options = {{"shared_memory_megabytes", int64_t{256}}};
  EXPECT_EQ(TakeProcessOptions(&options)->shared_megabytes, std::optional<int64_t>(256));
  options = {{"shared_memory_megabytes", int64_t{257}}};
  EXPECT_EQ(TakeProcessOptions(&options).status().code(), absl::StatusCode::kInvalidArgument);
  options = {{"node_id", int64_t{3}}, {"num_nodes", int64_t{3}}};
  EXPECT_EQ(TakeProcessOptions(&options).status().code(), absl::StatusCode::kInvalidArgument);
  ProcessOptions alone;
  alone.num_processes = 2;
  EXPECT_THAT(std::string(ProcessGroup::Join(alone, nullptr, HostTopology("v", 1)).status().message()),
              HasSubstr("key-value store"));
}

}  // namespace
}  // namespace backplane
