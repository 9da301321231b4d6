// Tests buffers: copies from and to host memory, deletion, references, copies, views, transfers in pieces.
#include <limits>
#include <numeric>
#include <string>

#include "api/extensions/layouts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/shim/copy_stream.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool IsReady(PJRT_Event* event) {
  BP_ARGS(a, PJRT_Event_IsReady);
  a.event = event;
  return BP_CALL(PJRT_Event_IsReady, a).ok() && a.is_ready;
}

class BufferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    storages_ = FakeControl::Get().storages;
    client_ = NewClient();
    device_ = Devices(client_)[0];
    remote_ = Memories(device_)[1];
  }
  void TearDown() override {
    Destroy(client_);
    EXPECT_EQ(FakeControl::Get().storages, storages_) << "storages leaked";
  }
  PJRT_Client_BufferFromHostBuffer_Args FromHost(const void* data, PJRT_Buffer_Type type,
                                                 const std::vector<int64_t>& dims, PJRT_HostBufferSemantics semantics) {
    BP_ARGS(a, PJRT_Client_BufferFromHostBuffer);
    a.client = client_;
    a.data = data;
    a.type = type;
    a.dims = dims.data();
    a.num_dims = dims.size();
    a.host_buffer_semantics = semantics;
    a.device = device_;
    return a;
  }
  PJRT_Client* client_;
  PJRT_Device* device_;
  PJRT_Memory* remote_;
  int64_t storages_;
};

TEST_F(BufferTest, ZeroCopyKeepsTheHostsMemoryUntilTheBufferGoes) {
  alignas(64) float data[4] = {1, 2, 3, 4};
  for (auto semantics : {PJRT_HostBufferSemantics_kImmutableZeroCopy, PJRT_HostBufferSemantics_kMutableZeroCopy}) {
    const std::vector<int64_t> dims = {4};
    auto a = FromHost(data, PJRT_Buffer_Type_F32, dims, semantics);
    ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
    EXPECT_EQ(Address(a.buffer), data);
    EXPECT_FALSE(IsReady(a.done_with_host_buffer));
    EXPECT_TRUE(Delete(a.buffer).ok());
    EXPECT_TRUE(IsReady(a.done_with_host_buffer));
    Destroy(a.buffer);
    EXPECT_TRUE(AwaitAndDestroy(a.done_with_host_buffer).ok());
  }
}

TEST_F(BufferTest, ZeroCopyCopiesWhereItMust) {
  alignas(64) float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<int64_t> dims = {2, 2}, transposed = {4, 8};
  auto misaligned = FromHost(data + 1, PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableZeroCopy);
  auto strided = FromHost(data, PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableZeroCopy);
  strided.byte_strides = transposed.data();
  strided.num_byte_strides = 2;
  auto remote = FromHost(data, PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableZeroCopy);
  remote.memory = remote_;
  const std::vector<std::vector<float>> expected = {{1, 2, 3, 4}, {0, 2, 1, 3}, {0, 1, 2, 3}};
  size_t i = 0;
  for (auto* a : {&misaligned, &strided, &remote}) {
    ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, *a).ok());
    EXPECT_TRUE(AwaitAndDestroy(a->done_with_host_buffer).ok());
    EXPECT_NE(Address(a->buffer), data);
    EXPECT_EQ(Values(a->buffer), expected[i++]);
    Destroy(a->buffer);
  }
}

TEST_F(BufferTest, LargeTransfersRunBehindTheCallAndSmallOnesDuringIt) {
  std::vector<float> large(100000);
  std::iota(large.begin(), large.end(), 0);
  const std::vector<int64_t> dims = {100000};
  auto a =
      FromHost(large.data(), PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
  ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
  EXPECT_TRUE(AwaitAndDestroy(a.done_with_host_buffer).ok());
  EXPECT_EQ(Values(a.buffer), large);
  Destroy(a.buffer);
  auto b = FromHost(large.data(), PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, b).ok());
  const std::vector<float> before = large;
  large.assign(large.size(), -1);  // may be reused at once
  EXPECT_EQ(Values(b.buffer), before);
  EXPECT_TRUE(AwaitAndDestroy(b.done_with_host_buffer).ok());
  Destroy(b.buffer);
}

TEST_F(BufferTest, DeviceLayoutsTiledAndStrided) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> dims = {2, 3};
  const int64_t column_major[] = {0, 1}, strides[] = {4, 8}, gaps[] = {4, 16}, no_permutation[] = {1, 1};
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE, nullptr, column_major, 2, nullptr, nullptr, 0};
  auto a = FromHost(data, PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  a.device_layout = &layout;
  ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
  EXPECT_TRUE(AwaitAndDestroy(a.done_with_host_buffer).ok());
  const float* raw = static_cast<const float*>(Address(a.buffer));
  EXPECT_THAT(std::vector<float>(raw, raw + 6), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Values(a.buffer), ElementsAre(1, 4, 2, 5, 3, 6));  // without a requested layout the buffer's own is used

  const int64_t row_major[] = {1, 0};
  PJRT_Buffer_MemoryLayout host = layout;
  host.tiled.minor_to_major = row_major;
  std::vector<float> back(6);
  BP_ARGS(h, PJRT_Buffer_ToHostBuffer);
  h.src = a.buffer;
  h.host_layout = &host;
  h.dst = back.data();
  h.dst_size = 24;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_ToHostBuffer, h).ok());
  EXPECT_TRUE(AwaitAndDestroy(h.event).ok());
  EXPECT_THAT(back, ElementsAre(1, 2, 3, 4, 5, 6));
  h.dst_size = 23;
  EXPECT_EQ(BP_CALL(PJRT_Buffer_ToHostBuffer, h).code(), absl::StatusCode::kInvalidArgument);

  BP_ARGS(g, PJRT_Buffer_GetMemoryLayout);
  g.buffer = a.buffer;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_GetMemoryLayout, g).ok());
  ASSERT_EQ(g.layout.tiled.minor_to_major_size, 2u);
  EXPECT_EQ(g.layout.tiled.minor_to_major[0], 0);
  Destroy(a.buffer);

  const int64_t tile[] = {2, 2};
  const size_t tile_size[] = {2};
  layout.tiled = {PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE, nullptr, row_major, 2, tile, tile_size, 1};
  ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
  EXPECT_TRUE(AwaitAndDestroy(a.done_with_host_buffer).ok());
  BP_ARGS(size, PJRT_Buffer_OnDeviceSizeInBytes);
  size.buffer = a.buffer;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_OnDeviceSizeInBytes, size).ok());
  EXPECT_EQ(size.on_device_size_in_bytes, 32u);
  const float* tiles = static_cast<const float*>(Address(a.buffer));
  EXPECT_THAT(std::vector<float>(tiles, tiles + 8), ElementsAre(1, 2, 4, 5, 3, 0, 6, 0));
  EXPECT_THAT(Values(a.buffer), ElementsAre(1, 2, 3, 4, 5, 6));  // host arrays have no tiles
  Destroy(a.buffer);

  layout.struct_size = 0;  // as in jaxlib
  layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
  layout.strides = {PJRT_Buffer_MemoryLayout_Strides_STRUCT_SIZE, nullptr, strides, 2};
  ASSERT_TRUE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
  EXPECT_TRUE(AwaitAndDestroy(a.done_with_host_buffer).ok());
  EXPECT_THAT(Values(a.buffer), ElementsAre(1, 4, 2, 5, 3, 6));
  Destroy(a.buffer);
  layout.strides.byte_strides = gaps;
  EXPECT_EQ(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).code(), absl::StatusCode::kUnimplemented);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE, nullptr, no_permutation, 2, nullptr, nullptr, 0};
  EXPECT_EQ(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BufferTest, BadShapesAndPointersAreRefused) {
  const float data[4] = {};
  const std::vector<int64_t> dims = {4}, negative = {-4}, huge = {int64_t{1} << 40, int64_t{1} << 40};
  auto base = FromHost(data, PJRT_Buffer_Type_F32, dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  auto code = [&](auto change) {
    auto a = base;
    change(a);
    return BP_CALL(PJRT_Client_BufferFromHostBuffer, a).code();
  };
  EXPECT_EQ(code([&](auto& a) { a.dims = negative.data(); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([&](auto& a) { a.dims = huge.data(), a.num_dims = 2; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([&](auto& a) { a.dims = nullptr; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([&](auto& a) { a.data = nullptr; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([&](auto& a) { a.device = nullptr; }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([&](auto& a) { a.type = static_cast<PJRT_Buffer_Type>(99); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([&](auto& a) { a.byte_strides = dims.data(), a.num_byte_strides = 2; }),
            absl::StatusCode::kInvalidArgument);
  const std::vector<int64_t> too_large = {2000};
  EXPECT_EQ(code([&](auto& a) { a.memory = remote_, a.dims = too_large.data(); }),
            absl::StatusCode::kResourceExhausted);
  PJRT_Client* other = NewClient();
  EXPECT_EQ(code([&](auto& a) { a.device = Devices(other)[0]; }), absl::StatusCode::kInvalidArgument);
  Destroy(other);
}

TEST_F(BufferTest, DeletedBuffersKeepTheirMetadataOnly) {
  PJRT_Buffer* x = NewBuffer(client_, device_, {1, 2});
  ASSERT_TRUE(Delete(x).ok());
  ASSERT_TRUE(Delete(x).ok());
  EXPECT_TRUE(IsDeleted(x));
  BP_ARGS(d, PJRT_Buffer_Dimensions);
  d.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_Dimensions, d).ok());
  EXPECT_EQ(d.dims[0], 2);
  std::vector<float> values;
  BP_ARGS(h, PJRT_Buffer_ToHostBuffer);
  h.src = x;
  float dst[2];
  h.dst = dst;
  h.dst_size = 8;
  absl::Status status = BP_CALL(PJRT_Buffer_ToHostBuffer, h);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("deleted or donated"));
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_ReadyEvent, r).ok());
  EXPECT_EQ(AwaitAndDestroy(r.event).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Address(x), nullptr);
  Destroy(x);
}

TEST_F(BufferTest, ExternalReferencesKeepTheMemoryAcrossDeletion) {
  PJRT_Buffer* x = NewBuffer(client_, device_, {5, 6});
  BP_ARGS(i, PJRT_Buffer_IncreaseExternalReferenceCount);
  i.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_IncreaseExternalReferenceCount, i).ok());
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_IncreaseExternalReferenceCount, i).ok());
  ASSERT_TRUE(Delete(x).ok());
  BP_ARGS(p, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
  p.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, p).ok());
  EXPECT_EQ(static_cast<const float*>(p.device_memory_ptr)[1], 6);
  BP_ARGS(d, PJRT_Buffer_DecreaseExternalReferenceCount);
  d.buffer = x;
  const int64_t alive = FakeControl::Get().storages;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, d).ok());
  EXPECT_EQ(FakeControl::Get().storages, alive);
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, d).ok());
  EXPECT_EQ(FakeControl::Get().storages, alive - 1);
  EXPECT_EQ(BP_CALL(PJRT_Buffer_DecreaseExternalReferenceCount, d).code(), absl::StatusCode::kInvalidArgument);
  Destroy(x);
}

TEST_F(BufferTest, CopiesBetweenDevicesAndMemories) {
  PJRT_Buffer* x = NewBuffer(client_, device_, {1, 2, 3});
  BP_ARGS(m, PJRT_Buffer_CopyToMemory);
  m.buffer = x;
  m.dst_memory = remote_;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_CopyToMemory, m).ok());
  EXPECT_THAT(Values(m.dst_buffer), ElementsAre(1, 2, 3));
  BP_ARGS(c, PJRT_Buffer_IsOnCpu);
  c.buffer = m.dst_buffer;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_IsOnCpu, c).ok());
  EXPECT_FALSE(c.is_on_cpu);
  BP_ARGS(d, PJRT_Buffer_CopyToDevice);
  d.buffer = m.dst_buffer;
  d.dst_device = Devices(client_)[1];
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_CopyToDevice, d).ok());
  BP_ARGS(w, PJRT_Buffer_Device);
  w.buffer = d.dst_buffer;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_Device, w).ok());
  EXPECT_EQ(w.device, Devices(client_)[1]);
  EXPECT_THAT(Values(d.dst_buffer), ElementsAre(1, 2, 3));
  Destroy(d.dst_buffer);
  Destroy(m.dst_buffer);
  Destroy(x);
}

TEST_F(BufferTest, ErrorBuffersCarryTheirErrorAlong) {
  const int64_t dims[] = {2};
  BP_ARGS(e, PJRT_Client_CreateErrorBuffer);
  e.client = client_;
  e.error_code = PJRT_Error_Code_ABORTED;
  e.error_message = "power cut";
  e.error_message_size = 9;
  e.shape_dims = dims;
  e.shape_num_dims = 1;
  e.shape_element_type = PJRT_Buffer_Type_F32;
  e.memory = Memories(device_)[0];
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateErrorBuffer, e).ok());
  std::vector<float> values;
  EXPECT_EQ(Read(e.buffer, &values), absl::AbortedError("power cut"));
  BP_ARGS(m, PJRT_Buffer_CopyToMemory);
  m.buffer = e.buffer;
  m.dst_memory = remote_;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_CopyToMemory, m).ok());
  EXPECT_EQ(Read(m.dst_buffer, &values), absl::AbortedError("power cut"));
  Destroy(m.dst_buffer);
  Destroy(e.buffer);
  e.error_code = PJRT_Error_Code_OK;
  EXPECT_EQ(BP_CALL(PJRT_Client_CreateErrorBuffer, e).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BufferTest, ErrorBuffersHaveTheirDeviceLayout) {
  const int64_t dims[] = {2, 3}, orders[][2] = {{0, 1}, {1, 0}};
  PJRT_Buffer_MemoryLayout layouts[2] = {};
  for (int i = 0; i < 2; ++i) {
    layouts[i].struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
    layouts[i].type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layouts[i].tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layouts[i].tiled.minor_to_major = orders[i];
    layouts[i].tiled.minor_to_major_size = 2;
  }
  BP_ARGS(e, PJRT_Client_CreateErrorBuffer);
  e.client = client_;
  e.error_code = PJRT_Error_Code_ABORTED;
  e.shape_dims = dims;
  e.shape_num_dims = 2;
  e.shape_element_type = PJRT_Buffer_Type_F32;
  e.memory = Memories(device_)[0];
  auto first_minor = [&] {
    EXPECT_TRUE(BP_CALL(PJRT_Client_CreateErrorBuffer, e).ok());
    BP_ARGS(l, PJRT_Buffer_GetMemoryLayout);
    l.buffer = e.buffer;
    EXPECT_TRUE(BP_CALL(PJRT_Buffer_GetMemoryLayout, l).ok());
    const int64_t first = l.layout.tiled.minor_to_major[0];
    Destroy(e.buffer);
    return first;
  };
  EXPECT_EQ(first_minor(), 1);
  e.shape_layout = &layouts[0];
  EXPECT_EQ(first_minor(), 0);
  e.device_layout = &layouts[1];  // overrides the other one
  EXPECT_EQ(first_minor(), 1);
  e.struct_size = PJRT_STRUCT_SIZE(PJRT_Client_CreateErrorBuffer_Args, num_payload);  // a host of 0.116
  EXPECT_EQ(first_minor(), 0);
}

TEST_F(BufferTest, ARefusedFulfilmentLeavesThePromise) {
  const int64_t dims[] = {2};
  BP_ARGS(c, PJRT_Client_CreateAliasBuffer);
  c.client = client_;
  c.memory = Memories(device_)[0];
  c.shape_dims = dims;
  c.shape_num_dims = 1;
  c.shape_element_type = PJRT_Buffer_Type_F32;
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateAliasBuffer, c).ok());
  PJRT_Client* other = NewClient();
  PJRT_Buffer* foreign = NewBuffer(other, Devices(other)[0], {1, 2});
  PJRT_Buffer* deleted = NewBuffer(client_, device_, {1, 2});
  ASSERT_TRUE(Delete(deleted).ok());
  BP_ARGS(f, PJRT_Client_FulfillAliasBuffer);
  f.client = client_;
  f.fulfill_alias_buffer_cb = c.fulfill_alias_buffer_cb;
  // A deleted buffer; the alias itself, whose value would wait for itself; a buffer of another client.
  for (PJRT_Buffer* wrong : {deleted, c.alias_buffer, foreign}) {
    f.buffer = wrong;
    EXPECT_EQ(BP_CALL(PJRT_Client_FulfillAliasBuffer, f).code(), absl::StatusCode::kInvalidArgument);
  }
  PJRT_Buffer* x = NewBuffer(client_, device_, {7, 8});
  f.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Client_FulfillAliasBuffer, f).ok());
  EXPECT_THAT(Values(c.alias_buffer), ElementsAre(7, 8));
  for (PJRT_Buffer* b : {c.alias_buffer, x, deleted, foreign}) Destroy(b);
  Destroy(other);
}

TEST_F(BufferTest, NoMemoryIsLargerThanTheAddressSpaceBehindIt) {
  alignas(64) static float data[4] = {};
  for (const int64_t size : {std::numeric_limits<int64_t>::max(), int64_t{1} << 57, int64_t{1} << 50}) {
    const int64_t dims[] = {size};
    BP_ARGS(a, PJRT_Client_BufferFromHostBuffer);
    a.client = client_;
    a.data = data;
    a.type = PJRT_Buffer_Type_U8;
    a.dims = dims;
    a.num_dims = 1;
    a.device = device_;
    a.host_buffer_semantics = PJRT_HostBufferSemantics_kMutableZeroCopy;
    EXPECT_FALSE(BP_CALL(PJRT_Client_BufferFromHostBuffer, a).ok());
    BP_ARGS(v, PJRT_Client_CreateViewOfDeviceBuffer);
    v.client = client_;
    v.device_buffer_ptr = data;
    v.dims = dims;
    v.num_dims = 1;
    v.element_type = PJRT_Buffer_Type_U8;
    v.device = device_;
    EXPECT_FALSE(BP_CALL(PJRT_Client_CreateViewOfDeviceBuffer, v).ok());
  }
}

TEST_F(BufferTest, AliasBuffersAreFulfilledOnceWithAValueOrAnError) {
  const int64_t dims[] = {2};
  BP_ARGS(c, PJRT_Client_CreateAliasBuffer);
  c.client = client_;
  c.memory = Memories(device_)[0];
  c.shape_dims = dims;
  c.shape_num_dims = 1;
  c.shape_element_type = PJRT_Buffer_Type_F32;
  PJRT_Buffer* x = NewBuffer(client_, device_, {7, 8});
  PJRT_Buffer* wrong = NewBuffer(client_, device_, {7, 8, 9});
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateAliasBuffer, c).ok());
  BP_ARGS(f, PJRT_Client_FulfillAliasBuffer);
  f.client = client_;
  f.buffer = wrong;
  f.fulfill_alias_buffer_cb = c.fulfill_alias_buffer_cb;
  EXPECT_EQ(BP_CALL(PJRT_Client_FulfillAliasBuffer, f).code(), absl::StatusCode::kInvalidArgument);
  f.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Client_FulfillAliasBuffer, f).ok());
  EXPECT_THAT(Values(c.alias_buffer), ElementsAre(7, 8));
  Destroy(c.alias_buffer);

  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateAliasBuffer, c).ok());
  f.fulfill_alias_buffer_cb = c.fulfill_alias_buffer_cb;
  f.buffer = nullptr;
  f.status_code = PJRT_Error_Code_CANCELLED;
  f.error_message = "no";
  f.error_message_size = 2;
  ASSERT_TRUE(BP_CALL(PJRT_Client_FulfillAliasBuffer, f).ok());
  std::vector<float> values;
  EXPECT_EQ(Read(c.alias_buffer, &values), absl::CancelledError("no"));
  Destroy(c.alias_buffer);
  Destroy(x);
  Destroy(wrong);
}

TEST_F(BufferTest, ViewsCallBackWhenTheyGo) {
  alignas(64) float data[2] = {3, 4};
  const int64_t dims[] = {2};
  int deleted = 0;
  BP_ARGS(v, PJRT_Client_CreateViewOfDeviceBuffer);
  v.struct_size = PJRT_STRUCT_SIZE(PJRT_Client_CreateViewOfDeviceBuffer_Args, buffer);  // a caller before 0.66
  v.client = client_;
  v.device_buffer_ptr = data;
  v.dims = dims;
  v.num_dims = 1;
  v.element_type = PJRT_Buffer_Type_F32;
  v.device = device_;
  v.stream = 0x5a5a;  // jaxlib leaves it unset
  v.on_delete_callback = [](void*, void* arg) { ++*static_cast<int*>(arg); };
  v.on_delete_callback_arg = &deleted;
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateViewOfDeviceBuffer, v).ok());
  data[0] = 9;
  EXPECT_THAT(Values(v.buffer), ElementsAre(9, 4));
  EXPECT_EQ(deleted, 0);
  Destroy(v.buffer);
  EXPECT_EQ(deleted, 1);
  v.device_buffer_ptr = data + 1;  // a view may have an address from which a buffer would have to copy
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateViewOfDeviceBuffer, v).ok());
  Destroy(v.buffer);
  EXPECT_EQ(deleted, 2);
  v.device_buffer_ptr = reinterpret_cast<char*>(data) + 1;
  EXPECT_EQ(BP_CALL(PJRT_Client_CreateViewOfDeviceBuffer, v).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(deleted, 2);
}

TEST_F(BufferTest, BitcastSharesTheMemory) {
  PJRT_Buffer* x = NewBuffer(client_, device_, {1, 2, 3, 4});
  const int64_t dims[] = {2, 8};
  BP_ARGS(b, PJRT_Buffer_Bitcast);
  b.buffer = x;
  b.element_type = PJRT_Buffer_Type_U8;
  b.dims = dims;
  b.num_dims = 2;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_Bitcast, b).ok());
  EXPECT_EQ(Address(b.out_buffer), Address(x));
  Destroy(b.out_buffer);
  b.num_dims = 1;
  EXPECT_EQ(BP_CALL(PJRT_Buffer_Bitcast, b).code(), absl::StatusCode::kInvalidArgument);
  Destroy(x);
}

TEST_F(BufferTest, RawBytesAtOnceAndLater) {
  PJRT_Buffer* x = NewBuffer(client_, device_, {1, 2, 3, 4});
  float two[2] = {};
  BP_ARGS(c, PJRT_Buffer_CopyRawToHost);
  c.buffer = x;
  c.dst = two;
  c.offset = 4;
  c.transfer_size = 8;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_CopyRawToHost, c).ok());
  EXPECT_TRUE(AwaitAndDestroy(c.event).ok());
  EXPECT_THAT(two, ElementsAre(2, 3));
  for (auto [offset, size] : {std::pair<int64_t, int64_t>{12, 8}, {-1, 4}, {4, -1}, {17, 0}}) {
    c.offset = offset;
    c.transfer_size = size;
    EXPECT_EQ(BP_CALL(PJRT_Buffer_CopyRawToHost, c).code(), absl::StatusCode::kInvalidArgument)
        << offset << " " << size;
  }
  for (bool fails : {false, true}) {
    BP_ARGS(f, PJRT_Buffer_CopyRawToHostFuture);
    f.buffer = x;
    f.offset = 8;
    f.transfer_size = 8;
    ASSERT_TRUE(BP_CALL(PJRT_Buffer_CopyRawToHostFuture, f).ok());
    EXPECT_FALSE(IsReady(f.event));
    PJRT_Buffer_CopyRawToHostFuture_Callback_Args now{};
    now.struct_size = PJRT_Buffer_CopyRawToHostFuture_Callback_Args_STRUCT_SIZE;
    now.callback_data = f.callback_data;
    now.dst = two;
    if (fails) now.error_code = PJRT_Error_Code_CANCELLED;
    f.future_ready_callback(&now);
    EXPECT_EQ(AwaitAndDestroy(f.event).code(), fails ? absl::StatusCode::kCancelled : absl::StatusCode::kOk);
    EXPECT_THAT(two, ElementsAre(3, 4));
  }
  Destroy(x);
}

TEST_F(BufferTest, DonateWithControlDependencyWaits) {
  PJRT_Buffer* x = NewBuffer(client_, device_, {1});
  BP_ARGS(d, PJRT_Buffer_DonateWithControlDependency);
  d.buffer = x;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_DonateWithControlDependency, d).ok());
  EXPECT_TRUE(IsDeleted(x));
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = d.out_buffer;
  ASSERT_TRUE(BP_CALL(PJRT_Buffer_ReadyEvent, r).ok());
  EXPECT_FALSE(IsReady(r.event));
  PJRT_Buffer_DonateWithControlDependency_Callback_Args now{};
  now.struct_size = PJRT_Buffer_DonateWithControlDependency_Callback_Args_STRUCT_SIZE;
  now.callback_data = d.callback_data;
  d.dependency_ready_callback(&now);
  EXPECT_TRUE(AwaitAndDestroy(r.event).ok());
  EXPECT_THAT(Values(d.out_buffer), ElementsAre(1));
  Destroy(d.out_buffer);
  Destroy(x);
}

TEST_F(BufferTest, AsyncTransfersPieceByPiece) {
  const int64_t four[] = {4}, two[] = {2};
  PJRT_ShapeSpec specs[2] = {{PJRT_ShapeSpec_STRUCT_SIZE, nullptr, four, 1, PJRT_Buffer_Type_F32},
                             {PJRT_ShapeSpec_STRUCT_SIZE, nullptr, two, 1, PJRT_Buffer_Type_F32}};
  BP_ARGS(c, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  c.client = client_;
  c.shape_specs = specs;
  c.num_shape_specs = 2;
  c.memory = remote_;
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateBuffersForAsyncHostToDevice, c).ok());
  auto transfer = [&](int index, const float* data, int64_t offset, int64_t size, bool last) {
    BP_ARGS(t, PJRT_AsyncHostToDeviceTransferManager_TransferData);
    t.transfer_manager = c.transfer_manager;
    t.buffer_index = index;
    t.data = data;
    t.offset = offset;
    t.transfer_size = size;
    t.is_last_transfer = last;
    absl::Status status = BP_CALL(PJRT_AsyncHostToDeviceTransferManager_TransferData, t);
    return status.ok() ? AwaitAndDestroy(t.done_with_h2d_transfer) : status;
  };
  auto retrieve = [&](int index) {
    BP_ARGS(r, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer);
    r.transfer_manager = c.transfer_manager;
    r.buffer_index = index;
    return BP_CALL(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, r).ok() ? r.buffer_out : nullptr;
  };
  const float data[4] = {1, 2, 3, 4};
  PJRT_Buffer* early = retrieve(0);
  ASSERT_NE(early, nullptr);
  EXPECT_EQ(retrieve(0), nullptr);
  EXPECT_EQ(retrieve(2), nullptr);
  EXPECT_TRUE(transfer(0, data, 0, 8, false).ok());
  EXPECT_EQ(transfer(0, data, 12, 8, true).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(transfer(0, data + 2, 8, 8, true).ok());
  EXPECT_EQ(transfer(0, data, 0, 4, false).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Values(early), ElementsAre(1, 2, 3, 4));

  BP_ARGS(l, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  l.transfer_manager = c.transfer_manager;
  l.buffer_index = 1;
  l.data = data;
  l.shape_dims = four;
  l.shape_num_dims = 1;
  l.shape_element_type = PJRT_Buffer_Type_F32;
  EXPECT_EQ(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, l).code(),
            absl::StatusCode::kInvalidArgument);
  l.shape_dims = two;
  ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral, l).ok());
  EXPECT_TRUE(AwaitAndDestroy(l.done_with_h2d_transfer).ok());
  PJRT_Buffer* late = retrieve(1);
  EXPECT_THAT(Values(late), ElementsAre(1, 2));
  BP_ARGS(d, PJRT_AsyncHostToDeviceTransferManager_Destroy);
  d.transfer_manager = c.transfer_manager;
  ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_Destroy, d).ok());
  Destroy(early);
  Destroy(late);

  // An error that the host sets, and a manager that is destroyed before the last piece.
  ASSERT_TRUE(BP_CALL(PJRT_Client_CreateBuffersForAsyncHostToDevice, c).ok());
  PJRT_Buffer* failed = retrieve(0);
  PJRT_Buffer* abandoned = retrieve(1);
  BP_ARGS(e, PJRT_AsyncHostToDeviceTransferManager_SetBufferError);
  e.transfer_manager = c.transfer_manager;
  e.error_code = PJRT_Error_Code_UNAVAILABLE;
  e.error_message = "gone";
  e.error_message_size = 4;
  ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_SetBufferError, e).ok());
  EXPECT_EQ(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_SetBufferError, e).code(),
            absl::StatusCode::kFailedPrecondition);
  d.transfer_manager = c.transfer_manager;
  ASSERT_TRUE(BP_CALL(PJRT_AsyncHostToDeviceTransferManager_Destroy, d).ok());
  std::vector<float> values;
  EXPECT_EQ(Read(failed, &values), absl::UnavailableError("gone"));
  EXPECT_EQ(Read(abandoned, &values).code(), absl::StatusCode::kCancelled);
  Destroy(failed);
  Destroy(abandoned);
}

TEST_F(BufferTest, CopyStreamsFillTheirMemory) {
  float destination[4] = {};
  Event complete = Event::Create();
  auto* stream = new PJRT_CopyToDeviceStream(destination, 16, 8, complete);
  static int freed;
  freed = 0;
  float data[4] = {1, 2, 3, 4};
  auto add = [&](void* from, size_t size) {
    PJRT_Chunk chunk{from, size, [](void*, void*) { ++freed; }, nullptr};
    BP_ARGS(a, PJRT_CopyToDeviceStream_AddChunk);
    a.stream = stream;
    a.chunk = &chunk;
    EXPECT_TRUE(BP_CALL(PJRT_CopyToDeviceStream_AddChunk, a).ok());
    return AwaitAndDestroy(a.transfer_complete);
  };
  EXPECT_TRUE(add(data, 8).ok());
  EXPECT_EQ(add(data, 4).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(add(data, 16).code(), absl::StatusCode::kInvalidArgument);
  BP_ARGS(n, PJRT_CopyToDeviceStream_CurrentBytes);
  n.stream = stream;
  ASSERT_TRUE(BP_CALL(PJRT_CopyToDeviceStream_CurrentBytes, n).ok());
  EXPECT_EQ(n.current_bytes, 8);
  EXPECT_FALSE(complete.IsReady());
  EXPECT_TRUE(add(data + 2, 8).ok());
  EXPECT_TRUE(complete.IsReady());
  EXPECT_TRUE(complete.status().ok());
  EXPECT_EQ(freed, 4);
  EXPECT_THAT(destination, ElementsAre(1, 2, 3, 4));
  BP_ARGS(d, PJRT_CopyToDeviceStream_Destroy);
  d.stream = stream;
  EXPECT_TRUE(BP_CALL(PJRT_CopyToDeviceStream_Destroy, d).ok());
  Event aborted = Event::Create();
  d.stream = new PJRT_CopyToDeviceStream(destination, 16, 8, aborted);
  EXPECT_TRUE(BP_CALL(PJRT_CopyToDeviceStream_Destroy, d).ok());
  EXPECT_EQ(aborted.Await().code(), absl::StatusCode::kAborted);
}

TEST_F(BufferTest, LayoutsExtensionSpeaksXlasText) {
  const PJRT_Layouts_Extension* ext = nullptr;
  for (const PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_Layouts) ext = reinterpret_cast<const PJRT_Layouts_Extension*>(e);
  }
  ASSERT_NE(ext, nullptr);
  PJRT_Buffer* x = NewBuffer(client_, device_, {1, 2, 3, 4, 5, 6}, {2, 3});
  BP_ARGS(b, PJRT_Layouts_PJRT_Buffer_MemoryLayout);
  b.buffer = x;
  ASSERT_TRUE(Take(ext->PJRT_Layouts_PJRT_Buffer_MemoryLayout(&b)).ok());
  BP_ARGS(s, PJRT_Layouts_MemoryLayout_Serialize);
  s.layout = b.layout;
  ASSERT_TRUE(Take(ext->PJRT_Layouts_MemoryLayout_Serialize(&s)).ok());
  EXPECT_EQ(std::string(s.serialized_bytes, s.serialized_bytes_size), "{1,0}");
  s.serialized_layout_deleter(s.serialized_layout);
  BP_ARGS(d, PJRT_Layouts_MemoryLayout_Destroy);
  d.layout = b.layout;
  ASSERT_TRUE(Take(ext->PJRT_Layouts_MemoryLayout_Destroy(&d)).ok());
  Destroy(x);
}

}  // namespace
}  // namespace backplane::testing
