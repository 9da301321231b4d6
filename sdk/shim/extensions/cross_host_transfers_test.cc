// The arguments of the transfers between processes. tests/processes has the transfers themselves.
#include "api/extensions/cross_host_transfers.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::shim {
namespace {

using ::testing::HasSubstr;

class CrossHostTransfersTest : public ::testing::Test {
 protected:
  CrossHostTransfersTest() {
    const PJRT_Extension_Base* base = testing::Api().extension_start;
    while (base != nullptr && base->type != PJRT_Extension_Type_CrossHostTransfers) base = base->next;
    extension_ = reinterpret_cast<const PJRT_CrossHostTransfers_Extension*>(base);
    client_ = testing::NewClient();
    buffer_ = testing::NewBuffer(client_, testing::Devices(client_)[0], {1, 2});
  }
  ~CrossHostTransfersTest() override {
    testing::Destroy(buffer_);
    testing::Destroy(client_);
  }

  // Sends the buffer twice; `ids` is memory with the device ids, in the form of the host's version.
  absl::Status Send(size_t struct_size, const void* ids) {
    BP_ARGS(a, PJRT_Transfers_PJRT_Client_CrossHostSendBuffers);
    PJRT_Buffer* buffers[] = {buffer_, buffer_};
    const int64_t keys[] = {3, 4};
    PJRT_Event* events[2] = {};
    a.client = client_;
    a.num_buffers = 2;
    a.buffers = buffers;
    a.dst_global_device_ids = static_cast<const int64_t*>(ids);
    a.transfer_keys = keys;
    a.send_events = events;
    a.num_tasks = num_tasks_;
    a.struct_size = struct_size;
    const absl::Status status = testing::Take(extension_->PJRT_Transfers_PJRT_Client_CrossHostSendBuffers(&a));
    EXPECT_EQ(events[0], nullptr);
    return status;
  }
  absl::Status Receive(int64_t source) {
    BP_ARGS(a, PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers);
    size_t rank = 1;
    const int64_t dim = 4, key = 3;
    const int64_t* dims = &dim;
    PJRT_Buffer_Type type = PJRT_Buffer_Type_F32;
    PJRT_Buffer* buffer = nullptr;
    a.client = client_;
    a.num_shapes = 1;
    a.shape_num_dims = &rank;
    a.num_dims = &dims;
    a.element_types = &type;
    a.device = testing::Devices(client_)[0];
    a.src_global_device_ids = &source;
    a.transfer_keys = &key;
    a.buffers = &buffer;
    const absl::Status status = testing::Take(extension_->PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers(&a));
    EXPECT_EQ(buffer, nullptr);
    return status;
  }

  static constexpr size_t kNewSize = PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args_STRUCT_SIZE;
  static constexpr size_t kOldSize = offsetof(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args, num_tasks);
  const PJRT_CrossHostTransfers_Extension* extension_ = nullptr;
  PJRT_Client* client_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
  size_t num_tasks_ = 0;
};

TEST_F(CrossHostTransfersTest, TheSizeOfTheStructTellsTheSizeOfDeviceIds) {
  const int64_t wide[] = {70, 90};
  const int32_t narrow[] = {80, 90};
  EXPECT_THAT(std::string(Send(kNewSize, wide).message()), HasSubstr("no device 70"));
  EXPECT_THAT(std::string(Send(kOldSize, narrow).message()), HasSubstr("no device 80"));
  EXPECT_THAT(std::string(Send(kOldSize - 8, narrow).message()), HasSubstr("struct_size is 56"));
  const int64_t huge[] = {int64_t{1} << 40, 0};
  EXPECT_THAT(std::string(Send(kNewSize, huge).message()), HasSubstr("no device 1099511627776"));
}

TEST_F(CrossHostTransfersTest, DevicesOfThisProcessAndMissingListsAreErrors) {
  const int64_t own[] = {1, 1};
  EXPECT_THAT(std::string(Send(kNewSize, own).message()), HasSubstr("device 1 is one of this process"));
  EXPECT_THAT(std::string(Send(kNewSize, nullptr).message()), HasSubstr("dst_global_device_ids"));
  num_tasks_ = 1;
  EXPECT_THAT(std::string(Send(kNewSize, own).message()), HasSubstr("task_ids"));
  EXPECT_THAT(std::string(Receive(1).message()), HasSubstr("device 1 is one of this process"));
  EXPECT_THAT(std::string(Receive(-1).message()), HasSubstr("no device -1"));
}

// Keeps what it is asked for.
class RecordedTransfers : public TransferService {
 public:
  Event StartSend(DeviceArray src, const ArrayTransfer& transfer) override {
    keys.push_back(transfer.key);
    return src.ready;
  }
  Event StartReceive(DeviceArray, const ArrayTransfer&) override { return Event(); }
  std::vector<int64_t> keys;
};

// Both processes count their transfers, so one that cannot be sent starts all the same.
TEST(CrossHostTransfers, ADeletedBufferIsAnErrorOfItsTransferOnly) {
  RecordedTransfers transfers;
  auto& control = testing::FakeControl::Get();
  control.first_device_elsewhere = 1;
  control.transfers = &transfers;
  PJRT_Client* const client = testing::NewClient();
  control.first_device_elsewhere = INT32_MAX;
  PJRT_Device* const device = testing::Devices(client)[0];
  PJRT_Buffer* const good = testing::NewBuffer(client, device, {1, 2});
  PJRT_Buffer* const deleted = testing::NewBuffer(client, device, {1, 2});
  ASSERT_TRUE(testing::Delete(deleted).ok());
  BP_ARGS(a, PJRT_Transfers_PJRT_Client_CrossHostSendBuffers);
  PJRT_Buffer* buffers[] = {good, deleted, good};
  const int64_t keys[] = {3, 4, 5}, targets[] = {1, 1, 1};
  PJRT_Event* events[3] = {};
  a.client = client;
  a.num_buffers = 3;
  a.buffers = buffers;
  a.dst_global_device_ids = targets;
  a.transfer_keys = keys;
  a.send_events = events;
  const PJRT_Extension_Base* base = testing::Api().extension_start;
  while (base->type != PJRT_Extension_Type_CrossHostTransfers) base = base->next;
  const auto* extension = reinterpret_cast<const PJRT_CrossHostTransfers_Extension*>(base);
  EXPECT_TRUE(testing::Take(extension->PJRT_Transfers_PJRT_Client_CrossHostSendBuffers(&a)).ok());
  EXPECT_EQ(transfers.keys, (std::vector<int64_t>{3, 4, 5}));
  for (int i : {0, 1, 2}) {
    ASSERT_NE(events[i], nullptr);
    const absl::Status sent = testing::AwaitAndDestroy(events[i]);
    EXPECT_EQ(sent.code(), i == 1 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kOk) << sent;
  }
  testing::Destroy(good);
  testing::Destroy(deleted);
  testing::Destroy(client);
  control.transfers = nullptr;
}

// The host learns it by the callback, and its descriptor is freed.
TEST_F(CrossHostTransfersTest, TransfersByDescriptorAreNotOffered) {
  BP_ARGS(make, PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers);
  EXPECT_EQ(testing::Take(extension_->PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers(&make)).code(),
            absl::StatusCode::kUnimplemented);
  BP_ARGS(event, PJRT_Event_Create);
  ASSERT_TRUE(BP_CALL(PJRT_Event_Create, event).ok());
  BP_ARGS(set, PJRT_Event_Set);
  set.event = event.event;
  ASSERT_TRUE(BP_CALL(PJRT_Event_Set, set).ok());
  absl::Status told;
  char text[] = "descriptor";
  char* descriptor = text;
  size_t size = sizeof text;
  BP_ARGS(a, PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice);
  a.buffer = buffer_;
  a.event = event.event;
  a.serialized_descriptor = &descriptor;
  a.serialized_descriptor_size = &size;
  a.on_done.user_arg = &told;
  a.on_done.on_done = [](PJRT_Error* error, bool enqueued, void* arg) {
    EXPECT_FALSE(enqueued);
    *static_cast<absl::Status*>(arg) = testing::Take(error);
  };
  a.descriptor_destructor = [](char** data, size_t* bytes) {
    *data = nullptr;
    *bytes = 0;
  };
  extension_->PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice(&a);
  EXPECT_EQ(told.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(descriptor, nullptr);
  EXPECT_EQ(size, 0u);
}

}  // namespace
}  // namespace backplane::shim
