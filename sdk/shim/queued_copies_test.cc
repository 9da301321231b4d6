// Tests a backend that queues copies: they end later, in any order, with errors, or never. Objects must live until
// then.
#include <unistd.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<PJRT_Buffer*>>;

bool IsReady(PJRT_Event* event) {
  BP_ARGS(a, PJRT_Event_IsReady);
  a.event = event;
  return BP_CALL(PJRT_Event_IsReady, a).ok() && a.is_ready;
}

PJRT_Event* ReadyEvent(PJRT_Buffer* buffer) {
  BP_ARGS(a, PJRT_Buffer_ReadyEvent);
  a.buffer = buffer;
  EXPECT_TRUE(BP_CALL(PJRT_Buffer_ReadyEvent, a).ok());
  return a.event;
}

class QueuedCopiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    storages_ = control_.storages;
    clients_ = control_.clients;
    client_ = NewClient();
    devices_ = Devices(client_);
    remote_ = Memories(devices_[0])[1];
    x_ = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
    control_.queues_copies = true;
  }
  void TearDown() override {
    control_.ForgetCopies();
    control_.offers_staging = false;
    Destroy(x_);
    if (client_ != nullptr) Destroy(client_);
    EXPECT_EQ(control_.storages, storages_) << "storages leaked";
  }

  struct Sent {
    PJRT_Buffer* buffer;
    PJRT_Event* released;
  };
  Sent Send(const float* data, PJRT_HostBufferSemantics semantics, PJRT_Memory* memory = nullptr) {
    BP_ARGS(a, PJRT_Client_BufferFromHostBuffer);
    a.client = client_;
    a.data = data;
    a.type = PJRT_Buffer_Type_F32;
    a.dims = &four_;
    a.num_dims = 1;
    a.host_buffer_semantics = semantics;
    a.device = devices_[0];
    a.memory = memory;
    EXPECT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
    return {a.buffer, a.done_with_host_buffer};
  }
  PJRT_Event* Fetch(PJRT_Buffer* buffer, float* to) {
    BP_ARGS(a, PJRT_Buffer_ToHostBuffer);
    a.src = buffer;
    a.dst = to;
    a.dst_size = 16;
    EXPECT_TRUE(BP_CALL(PJRT_Buffer_ToHostBuffer, a).ok());
    return a.event;
  }
  PJRT_Buffer* CopyTo(PJRT_Buffer* buffer, PJRT_Memory* memory) {
    BP_ARGS(a, PJRT_Buffer_CopyToMemory);
    a.buffer = buffer;
    a.dst_memory = memory;
    EXPECT_TRUE(BP_CALL(PJRT_Buffer_CopyToMemory, a).ok());
    return a.dst_buffer;
  }

  FakeControl& control_ = FakeControl::Get();
  const int64_t four_ = 4;
  int64_t storages_, clients_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
  PJRT_Memory* remote_;
  PJRT_Buffer* x_;
};

TEST_F(QueuedCopiesTest, HostMemoryIsReleasedBeforeTheValueIsThere) {
  const float data[4] = {5, 6, 7, 8};
  Sent sent = Send(data, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  PJRT_Event* ready = ReadyEvent(sent.buffer);
  EXPECT_FALSE(IsReady(sent.released));
  control_.ReleaseHost(0);
  EXPECT_TRUE(IsReady(sent.released));
  EXPECT_FALSE(IsReady(ready));
  control_.FinishCopy(0);
  EXPECT_TRUE(AwaitAndDestroy(ready).ok());
  EXPECT_TRUE(AwaitAndDestroy(sent.released).ok());
  control_.queues_copies = false;
  EXPECT_THAT(Values(sent.buffer), ElementsAre(5, 6, 7, 8));
  Destroy(sent.buffer);
}

TEST_F(QueuedCopiesTest, EndInAnyOrderAndErrorsStayTheirOwn) {
  float a[4] = {}, b[4] = {}, c[4] = {};
  PJRT_Event* events[] = {Fetch(x_, a), Fetch(x_, b), Fetch(x_, c)};
  ASSERT_EQ(control_.queued_copies(), 3u);
  control_.FinishCopy(2);
  EXPECT_TRUE(IsReady(events[2]));
  EXPECT_FALSE(IsReady(events[0]));
  control_.FailCopy(0, absl::DataLossError("the link is down"));
  control_.DropCopy(1);
  EXPECT_EQ(AwaitAndDestroy(events[0]), absl::DataLossError("the link is down"));
  EXPECT_EQ(AwaitAndDestroy(events[1]).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(AwaitAndDestroy(events[2]).ok());
  EXPECT_THAT(c, ElementsAre(1, 2, 3, 4));
}

TEST_F(QueuedCopiesTest, AFailedOrLostCopyIsABufferWithAnError) {
  PJRT_Buffer* failed = CopyTo(x_, remote_);
  PJRT_Buffer* lost = CopyTo(x_, remote_);
  PJRT_Buffer* behind = CopyTo(failed, remote_);
  control_.FailCopy(0, absl::DataLossError("the link is down"));
  control_.DropCopy(1);
  control_.FinishCopy(2);
  control_.queues_copies = false;
  std::vector<float> values;
  EXPECT_EQ(Read(failed, &values), absl::DataLossError("the link is down"));
  EXPECT_EQ(Read(behind, &values), absl::DataLossError("the link is down"));
  EXPECT_EQ(Read(lost, &values).code(), absl::StatusCode::kAborted);
  for (PJRT_Buffer* b : {failed, lost, behind}) Destroy(b);
}

TEST_F(QueuedCopiesTest, ProgramsAndCopiesSeeTheSignals) {
  control_.queues_copies = false;
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  control_.queues_copies = true;
  const float data[4] = {10, 20, 30, 40};
  Sent sent = Send(data, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  PJRT_Buffer* copy = CopyTo(sent.buffer, Memories(devices_[0])[0]);
  control_.Hold();
  Rows out;
  ASSERT_TRUE(Execute(add, {{x_, copy}}, 1, &out).ok());
  EXPECT_THAT(control_.last_signals, ElementsAre(false, true));
  control_.FinishCopy(0);
  control_.FinishCopy(1);
  control_.ReleaseAll();
  control_.queues_copies = false;
  EXPECT_THAT(Values(out[0][0]), ElementsAre(11, 22, 33, 44));
  ASSERT_TRUE(AwaitAndDestroy(sent.released).ok());
  Destroy(out[0][0]);
  Destroy(copy);
  Destroy(sent.buffer);
  Destroy(add);
}

TEST_F(QueuedCopiesTest, MemoryThatACopyReadsIsNotDonated) {
  control_.queues_copies = false;
  PJRT_LoadedExecutable* add = MustCompile(client_, kDonate);
  control_.queues_copies = true;
  PJRT_Buffer* a = x_;
  x_ = nullptr;
  float values[4] = {};
  for (const bool ends_before : {false, true}) {
    PJRT_Event* fetched = Fetch(a, values);
    const size_t number = control_.queued_copies() - 1;
    if (ends_before) control_.FinishCopy(number);
    Rows out;
    PJRT_Buffer* y = NewBuffer(client_, devices_[0], {1, 1, 1, 1});
    ASSERT_TRUE(Execute(add, {{a, y}}, 1, &out).ok());
    // The program may write the memory once nothing reads it; a copy drops its references before its event is set.
    EXPECT_THAT(control_.last_donated, ElementsAre(ends_before, false));
    EXPECT_TRUE(IsDeleted(a));
    if (!ends_before) control_.FinishCopy(number);
    EXPECT_TRUE(AwaitAndDestroy(fetched).ok());
    EXPECT_THAT(values[0], ends_before ? 2 : 1);
    Destroy(y);
    Destroy(a);
    a = out[0][0];
  }
  Destroy(a);
  Destroy(add);
  x_ = NewBuffer(client_, devices_[0], {0});
}

TEST_F(QueuedCopiesTest, HostAndClientMayLetGoWhileCopiesAreUnderWay) {
  float values[4] = {};
  PJRT_Event* fetched = Fetch(x_, values);
  PJRT_Buffer* copy = CopyTo(x_, remote_);
  const float data[4] = {5, 6, 7, 8};
  Sent sent = Send(data, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  Destroy(sent.buffer);
  Destroy(copy);
  Destroy(x_);
  Destroy(client_);
  client_ = nullptr;
  x_ = nullptr;
  EXPECT_EQ(control_.clients, clients_ + 1);  // the copies hold it
  for (size_t i : {2, 1, 0}) control_.FinishCopy(i);
  EXPECT_TRUE(AwaitAndDestroy(fetched).ok());
  EXPECT_TRUE(AwaitAndDestroy(sent.released).ok());
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  // If an event holds the last reference, a new thread destroys the client.
  for (int i = 0; i < 1000 && control_.clients != clients_; ++i) usleep(1000);
  EXPECT_EQ(control_.clients, clients_);
}

TEST_F(QueuedCopiesTest, MemoryLentForTheCallMovesThroughStaging) {
  control_.offers_staging = true;
  float data[4] = {1, 2, 3, 4};
  Sent sent = Send(data, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, remote_);
  EXPECT_TRUE(IsReady(sent.released));
  data[0] = 9;  // may be reused
  EXPECT_EQ(control_.queued_copies(), 1u);
  const int64_t alive = control_.storages;
  control_.FinishCopy(0);
  EXPECT_EQ(control_.storages, alive - 1);  // the staging memory
  // If staging memory has run out, and for memory that the host can write directly, the copy is done when the call
  // returns.
  control_.offers_staging = false;
  Sent waited = Send(data, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, remote_);
  control_.offers_staging = true;
  Sent direct = Send(data, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  EXPECT_EQ(control_.queued_copies(), 1u);
  control_.queues_copies = false;
  EXPECT_THAT(Values(sent.buffer), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values(waited.buffer), ElementsAre(9, 2, 3, 4));
  EXPECT_THAT(Values(direct.buffer), ElementsAre(9, 2, 3, 4));
  for (const Sent& s : {sent, waited, direct}) {
    EXPECT_TRUE(AwaitAndDestroy(s.released).ok());
    Destroy(s.buffer);
  }
}

TEST_F(QueuedCopiesTest, PiecesOfATransferEndInAnyOrder) {
  PJRT_ShapeSpec spec{};
  spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
  spec.dims = &four_;
  spec.num_dims = 1;
  spec.element_type = PJRT_Buffer_Type_F32;
  BP_ARGS(c, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  c.client = client_;
  c.shape_specs = &spec;
  c.num_shape_specs = 1;
  c.memory = remote_;
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateBuffersForAsyncHostToDevice, c).ok());
  const float data[4] = {1, 2, 3, 4};
  PJRT_Event* done[2];
  for (int piece = 0; piece < 2; ++piece) {
    BP_ARGS(t, PJRT_AsyncHostToDeviceTransferManager_TransferData);
    t.transfer_manager = c.transfer_manager;
    t.data = data + 2 * piece;
    t.offset = 8 * piece;
    t.transfer_size = 8;
    t.is_last_transfer = piece == 1;
    ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_TransferData, t).ok());
    done[piece] = t.done_with_h2d_transfer;
  }
  BP_ARGS(r, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
  r.transfer_manager = c.transfer_manager;
  ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, r).ok());
  BP_ARGS(d, PJRT_AsyncHostToDeviceTransferManager_Destroy);
  d.transfer_manager = c.transfer_manager;
  ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_Destroy, d).ok());
  PJRT_Event* ready = ReadyEvent(r.buffer_out);
  control_.FinishCopy(1);
  EXPECT_TRUE(AwaitAndDestroy(done[1]).ok());
  EXPECT_FALSE(IsReady(ready));
  control_.FinishCopy(0);
  EXPECT_TRUE(AwaitAndDestroy(done[0]).ok());
  EXPECT_TRUE(AwaitAndDestroy(ready).ok());
  control_.queues_copies = false;
  EXPECT_THAT(Values(r.buffer_out), ElementsAre(1, 2, 3, 4));
  Destroy(r.buffer_out);
}

TEST_F(QueuedCopiesTest, AViewWaitsForTheStreamThatWritesIt) {
  float memory[4] = {1, 2, 3, 4};
  int stream = 0;
  control_.stream_event = Event::Create();
  BP_ARGS(a, PJRT_Client_CreateViewOfDeviceBuffer);
  a.client = client_;
  a.device_buffer_ptr = memory;
  a.dims = &four_;
  a.num_dims = 1;
  a.element_type = PJRT_Buffer_Type_F32;
  a.device = devices_[0];
  a.memory = remote_;
  a.stream = reinterpret_cast<intptr_t>(&stream);
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateViewOfDeviceBuffer, a).ok());
  EXPECT_EQ(control_.last_stream, &stream);
  PJRT_Event* ready = ReadyEvent(a.buffer);
  EXPECT_FALSE(IsReady(ready));
  control_.stream_event.Set();
  EXPECT_TRUE(AwaitAndDestroy(ready).ok());
  Destroy(a.buffer);
}

}  // namespace
}  // namespace backplane::testing
