// Records sessions of a host that uses everything, and replays them on the same plugin: all data that the host read
// must be identical, and every error must have the same code.
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <set>
#include <thread>

#include "gtest/gtest.h"
#include "sdk/host/client.h"
#include "sdk/host/test_macros.h"
#include "sdk/layers/layer.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {
namespace {

using host::Buffer;
using host::Client;
using host::Event;
using host::HostArray;
using host::LoadedExecutable;

constexpr char kAdd[] = R"(
module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
constexpr char kTwoOutputsDonated[] = R"(
module @step {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.multiply %x, %y : tensor<4xf32>
    %1 = stablehlo.sine %0 : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
})";
constexpr char kReplicas[] = R"(
module @sum attributes {mhlo.num_replicas = 3 : i32} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

class RecordTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(plugin_, host::Plugin::Load(BACKPLANE_REFERENCE_PLUGIN));
    path_ = testing::TempDir() + "record_" + std::to_string(getpid()) + "_" +
            testing::UnitTest::GetInstance()->current_test_info()->name() + ".bprec";
  }
  void TearDown() override { unlink(path_.c_str()); }

  // Runs a host with the layer. The host must destroy everything before it returns.
  void Record(const std::function<void(Client&)>& host, std::vector<std::pair<std::string, std::string>> options = {}) {
    options.emplace_back("file", path_);
    ASSERT_OK_AND_ASSIGN(auto layer, layers::MakeLayerByName("record", layers::Options("record", options)));
    std::vector<std::unique_ptr<layers::Layer>> list;
    list.push_back(std::move(layer));
    ASSERT_OK_AND_ASSIGN(const auto stack, layers::Stack::Create(&plugin_->api(), "reference", std::move(list)));
    ASSERT_OK_AND_ASSIGN(const host::Plugin* layered, host::Plugin::FromApi(stack->api(), "layered"));
    {
      ASSERT_OK_AND_ASSIGN(Client client, Client::Create(*layered, {{"cpu_device_count", 4}}));
      host(client);
    }
  }

  std::vector<Operation> Operations() {
    std::vector<Operation> operations;
    const auto reader = SessionReader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    for (size_t i = 0; reader.ok() && i < (*reader)->size(); ++i) operations.push_back(*(*reader)->At(i));
    return operations;
  }
  size_t Count(Kind kind) {
    size_t n = 0;
    for (const Operation& op : Operations()) n += op.kind == kind ? 1 : 0;
    return n;
  }

  // Replays the session and returns a line for each operation with another status or other data.
  std::vector<std::string> ReplayedOtherwise(size_t* reads = nullptr, ReplayOptions options = {}) {
    std::vector<std::string> wrong;
    const auto reader = SessionReader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return {"not opened"};
    EXPECT_TRUE((*reader)->complete());
    Replayer replayer(**reader, *plugin_, options);
    size_t compared = 0;
    for (size_t i = 0; i < (*reader)->size(); ++i) {
      const Operation op = *(*reader)->At(i);
      const Outcome outcome = replayer.Step(op);
      const std::string what = absl::StrCat(op.number, " ", KindName(op.kind), ": ");
      if (!outcome.skipped.empty()) {
        if (op.kind != Kind::kCall && op.kind != Kind::kObstacle) wrong.push_back(what + "skipped: " + outcome.skipped);
        continue;
      }
      if (static_cast<int>(outcome.status.code()) != op.code)
        wrong.push_back(absl::StrCat(what, outcome.status.ToString(), ", expected ", op.code, " ", op.message));
      const bool host_read = (op.kind == Kind::kWait || op.kind == Kind::kPointer) && !op.blobs.empty();
      if (host_read != outcome.read.has_value()) wrong.push_back(what + "a read on one side only");
      if (!host_read || !outcome.read.has_value()) continue;
      ++compared;
      if (outcome.read->type != op.type || outcome.read->dims != op.dims) wrong.push_back(what + "another shape");
      if (Sha256::Of(absl::MakeConstSpan(outcome.read->data)) != op.blobs[0].digest)
        wrong.push_back(what + "other bytes");
    }
    if (reads != nullptr) *reads = compared;
    return wrong;
  }

  const host::Plugin* plugin_ = nullptr;
  std::string path_;
};

HostArray Floats(std::vector<float> values) {
  return HostArray::Of<float>({static_cast<int64_t>(values.size())}, values);
}
const std::vector<std::string> kNothing;

TEST_F(RecordTest, ComputeWithDonation) {
  Record([](Client& client) {
    ASSERT_OK_AND_ASSIGN(const LoadedExecutable add, client.Compile({"mlir", kAdd}));
    ASSERT_OK_AND_ASSIGN(const LoadedExecutable step, client.Compile({"mlir", kTwoOutputsDonated}));
    ASSERT_OK_AND_ASSIGN(const Buffer x, client.ToDevice(Floats({1, 2, 3, 4})));
    ASSERT_OK_AND_ASSIGN(Buffer state, client.ToDevice(Floats({0.5, 0.25, -1, 8})));
    for (int i = 0; i < 5; ++i) {
      ASSERT_OK_AND_ASSIGN(std::vector<Buffer> out, step.Execute({&state, &x}));
      EXPECT_TRUE(*state.IsDeleted());
      state = std::move(out[0]);
      ASSERT_OK_AND_ASSIGN(std::vector<Buffer> sum, add.Execute({&out[1], &x}));
      ASSERT_OK_AND_ASSIGN(const HostArray read, sum[0].ToHost());
      EXPECT_EQ(read.Values<float>().size(), 4u);
    }
  });
  size_t reads = 0;
  EXPECT_EQ(ReplayedOtherwise(&reads), kNothing);
  EXPECT_EQ(reads, 5u);
  size_t donated = 0;
  for (const Operation& op : Operations()) donated += op.donated.size();
  EXPECT_EQ(donated, 5u);
}

TEST_F(RecordTest, ErrorsAreRecordedAndComeAgain) {
  Record([](Client& client) {
    EXPECT_FALSE(client.Compile({"mlir", "no program"}).ok());
    EXPECT_FALSE(client.Compile({"nonsense", kAdd}).ok());
    ASSERT_OK_AND_ASSIGN(const LoadedExecutable add, client.Compile({"mlir", kAdd}));
    ASSERT_OK_AND_ASSIGN(const Buffer x, client.ToDevice(Floats({1, 2, 3, 4})));
    ASSERT_OK_AND_ASSIGN(const Buffer other, client.ToDevice(Floats({1, 2})));
    EXPECT_FALSE(add.Execute({&x}).ok());          // too few
    EXPECT_FALSE(add.Execute({&x, &other}).ok());  // another shape
    ASSERT_OK(other.Delete());
    EXPECT_FALSE(other.ToHost().ok());
    ASSERT_OK_AND_ASSIGN(const auto memories, client.AddressableMemories());
    ASSERT_OK_AND_ASSIGN(const Buffer bad,
                         client.ErrorBuffer(absl::DataLossError("lost"), {PJRT_Buffer_Type_F32, {4}}, memories[0]));
    EXPECT_FALSE(bad.Await().ok());
    ASSERT_OK_AND_ASSIGN(const std::vector<Buffer> poisoned, add.Execute({&x, &bad}));
    EXPECT_EQ(poisoned[0].Await().code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(poisoned[0].ToHost().ok());
  });
  std::map<int, int> codes;
  for (const Operation& op : Operations()) codes[op.code] += op.code != 0 ? 1 : 0;
  EXPECT_GE(codes[PJRT_Error_Code_INVALID_ARGUMENT], 3);
  EXPECT_GE(codes[PJRT_Error_Code_DATA_LOSS], 2);
  EXPECT_EQ(ReplayedOtherwise(), kNothing);
}

TEST_F(RecordTest, LayoutsOfDeviceAndHost) {
  Record([](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto devices, client.AddressableDevices());
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    const std::vector<int64_t> dims = {2, 3};
    const std::optional<host::BufferLayout> columns =
        host::BufferLayout{PJRT_Buffer_MemoryLayout_Type_Tiled, {0, 1}, {}, {}};
    CLayout layout(columns);
    BP_PJRT_ARGS(client.plugin(), a, PJRT_Client_BufferFromHostBuffer);
    a.client = client.raw();
    a.data = values.data();
    a.type = PJRT_Buffer_Type_F32;
    a.dims = dims.data();
    a.num_dims = dims.size();
    a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    a.device = devices[1].raw();
    a.device_layout = layout.get();
    ASSERT_OK(BP_PJRT_CALL(client.plugin(), PJRT_Client_BufferFromHostBuffer, a));
    const Buffer buffer(client.plugin(), client.keep(), a.buffer);
    const Event done(client.plugin(), client.keep(), a.done_with_host_buffer);
    // In the layout of the buffer, by columns, by rows; and into a buffer that is too small.
    for (int form = 0; form < 4; ++form) {
      std::vector<float> got(6);
      const std::optional<host::BufferLayout> rows =
          host::BufferLayout{PJRT_Buffer_MemoryLayout_Type_Tiled, {1, 0}, {}, {}};
      CLayout wanted(form == 1 ? columns : rows);
      BP_PJRT_ARGS(client.plugin(), r, PJRT_Buffer_ToHostBuffer);
      r.src = buffer.raw();
      r.host_layout = form == 0 ? nullptr : wanted.get();
      r.dst = got.data();
      r.dst_size = form == 3 ? 20 : 24;
      const absl::Status status = BP_PJRT_CALL(client.plugin(), PJRT_Buffer_ToHostBuffer, r);
      ASSERT_EQ(status.ok(), form != 3) << status;
      if (form == 3) break;
      const Event event(client.plugin(), client.keep(), r.event);
      ASSERT_OK(event.Await());
      EXPECT_EQ(got[1], form == 2 ? 2 : 4);
    }
  });
  size_t reads = 0;
  EXPECT_EQ(ReplayedOtherwise(&reads), kNothing);
  EXPECT_EQ(reads, 3u);
  // The session contains the array by rows, whatever the layout was.
  const Digest rows = Sha256::Of(absl::MakeConstSpan(HostArray::Of<float>({6}, {1, 2, 3, 4, 5, 6}).data));
  for (const Operation& op : Operations()) {
    if (!op.blobs.empty()) {
      EXPECT_EQ(op.blobs[0].digest, rows) << op.number;
    }
  }
}

TEST_F(RecordTest, SeveralDevicesCopiesAndCollectives) {
  Record([](Client& client) {
    host::CompileOptions options;
    options.num_replicas = 3;
    options.device_assignment = {3, 1, 0};
    ASSERT_OK_AND_ASSIGN(const LoadedExecutable sum, client.Compile({"mlir", kReplicas}, options));
    ASSERT_OK_AND_ASSIGN(const std::vector<host::Device> devices, sum.AddressableDevices());
    std::vector<Buffer> inputs;
    for (size_t d = 0; d < devices.size(); ++d) {
      const float f = static_cast<float>(d);
      ASSERT_OK_AND_ASSIGN(Buffer b, client.ToDevice(Floats({f, f + 1, f * f, 1}), devices[d]));
      inputs.push_back(std::move(b));
    }
    std::vector<std::vector<const Buffer*>> rows;
    for (const Buffer& b : inputs) rows.push_back({&b});
    host::ExecuteOptions execute;
    execute.want_events = true;
    execute.launch_id = 5;
    ASSERT_OK_AND_ASSIGN(host::ExecuteResult result, sum.Execute(rows, execute));
    for (const Event& event : result.done) ASSERT_OK(event.Await());
    for (const auto& row : result.outputs) ASSERT_OK(row[0].ToHost().status());
    ASSERT_OK_AND_ASSIGN(const std::vector<host::Device> all, client.AddressableDevices());
    ASSERT_OK_AND_ASSIGN(const Buffer copy, inputs[1].CopyToDevice(all[2]));
    ASSERT_OK(copy.ToHost().status());
  });
  size_t reads = 0;
  EXPECT_EQ(ReplayedOtherwise(&reads), kNothing);
  EXPECT_EQ(reads, 4u);
  // With fewer devices the replay reports what is missing and does not use other devices.
  ReplayOptions fewer;
  fewer.create_options = {{"cpu_device_count", 2}};
  const std::vector<std::string> wrong = ReplayedOtherwise(nullptr, fewer);
  ASSERT_FALSE(wrong.empty());
  EXPECT_NE(wrong[0].find("device 3 of the session"), std::string::npos) << wrong[0];
}

TEST_F(RecordTest, CallbacksStridesTransfersAliasesAndDependencies) {
  Record([](Client& client) {
    // Strides with gaps, negative strides; memory that is used in place.
    std::vector<float> memory(64);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i) * 0.5f;
    const std::vector<int64_t> dims = {4, 3}, strides = {-48, 8};
    host::HostView view{&memory[40], PJRT_Buffer_Type_F32, dims, strides};
    ASSERT_OK_AND_ASSIGN(auto strided, client.FromHost(view, PJRT_HostBufferSemantics_kImmutableZeroCopy));
    // Read by a callback.
    std::vector<float> got(12);
    ASSERT_OK_AND_ASSIGN(const Event event,
                         strided.first.CopyToHost(absl::MakeSpan(reinterpret_cast<std::byte*>(got.data()), 48)));
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    ASSERT_OK(event.OnReady([&](absl::Status) {
      std::lock_guard<std::mutex> lock(mutex);
      done = true;
      changed.notify_all();
    }));
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return done; });
    }
    EXPECT_EQ(got[1], memory[42]);
    EXPECT_EQ(got[3], memory[28]);
    // Read by polling.
    std::vector<std::byte> raw(8);
    ASSERT_OK_AND_ASSIGN(const Event polled, strided.first.CopyRawToHost(absl::MakeSpan(raw), 8));
    while (!*polled.IsReady()) std::this_thread::yield();

    ASSERT_OK_AND_ASSIGN(const auto memories, client.AddressableMemories());
    ASSERT_OK_AND_ASSIGN(
        const auto transfer,
        client.StartTransfer({{PJRT_Buffer_Type_F32, {4}}, {PJRT_Buffer_Type_S32, {2}}, {PJRT_Buffer_Type_F32, {2}}},
                             memories[0]));
    ASSERT_OK_AND_ASSIGN(const Buffer first, transfer.Retrieve(0));
    const std::vector<float> values = {9, 8, 7, 6};
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    ASSERT_OK_AND_ASSIGN(const Event e1, transfer.Send(0, {bytes, 8}, 0, false));
    ASSERT_OK_AND_ASSIGN(const Event e2, transfer.Send(0, {bytes + 8, 8}, 8, true));
    ASSERT_OK(e1.Await());
    ASSERT_OK(e2.Await());
    ASSERT_OK(first.ToHost().status());
    ASSERT_OK_AND_ASSIGN(const Event e3, transfer.SendArray(1, HostArray::Of<int32_t>({2}, {5, -5})));
    ASSERT_OK(e3.Await());
    ASSERT_OK_AND_ASSIGN(const Buffer second, transfer.Retrieve(1));
    ASSERT_OK(second.ToHost().status());
    ASSERT_OK(transfer.Fail(2, absl::AbortedError("no more")));
    ASSERT_OK_AND_ASSIGN(const Buffer third, transfer.Retrieve(2));
    EXPECT_EQ(third.Await().code(), absl::StatusCode::kAborted);

    ASSERT_OK_AND_ASSIGN(auto alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memories[0]));
    ASSERT_OK(alias.fulfill(&first));
    ASSERT_OK(alias.buffer.ToHost().status());
    ASSERT_OK_AND_ASSIGN(auto broken, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memories[0]));
    ASSERT_OK(broken.fulfill(absl::OutOfRangeError("none")));
    EXPECT_EQ(broken.buffer.Await().code(), absl::StatusCode::kOutOfRange);

    ASSERT_OK_AND_ASSIGN(auto dependent, second.DonateWithControlDependency());
    dependent.done(absl::OkStatus());
    ASSERT_OK(dependent.buffer.ToHost().status());
    ASSERT_OK_AND_ASSIGN(const Buffer cast, first.Bitcast(PJRT_Buffer_Type_S32, {2, 2}));
    ASSERT_OK(cast.ToHost().status());
  });
  size_t reads = 0;
  EXPECT_EQ(ReplayedOtherwise(&reads), kNothing);
  EXPECT_EQ(reads, 7u);
  EXPECT_EQ(Count(Kind::kDonationReady), 1u);
  EXPECT_EQ(Count(Kind::kFulfillAlias), 2u);
  for (const Operation& op : Operations()) {
    if (op.kind == Kind::kFromHost) {
      EXPECT_EQ(op.byte_strides, (std::vector<int64_t>{-48, 8}));
    }
  }
}

TEST_F(RecordTest, AWaitForWhatTheSessionNeverGivesEnds) {
  Record([&](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto devices, client.AddressableDevices());
    ASSERT_OK_AND_ASSIGN(const auto memory, devices[0].DefaultMemory());
    ASSERT_OK_AND_ASSIGN(Client::Alias alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memory));
    std::vector<std::byte> bytes(16);
    ASSERT_OK_AND_ASSIGN(const Event read, alias.buffer.CopyToHost(absl::MakeSpan(bytes)));
    ASSERT_OK(alias.fulfill(absl::AbortedError("planned")));
    EXPECT_FALSE(read.Await().ok());
  });
  const auto reader = SessionReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ReplayOptions options;
  options.promise_patience_ms = 50;
  Replayer replayer(**reader, *plugin_, options);
  bool waited = false;
  for (size_t i = 0; i < (*reader)->size(); ++i) {
    const Operation op = *(*reader)->At(i);
    if (op.kind == Kind::kFulfillAlias) continue;  // as if the file did not contain it
    const Outcome outcome = replayer.Step(op);
    if (op.kind != Kind::kWait) continue;
    waited = true;
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled) << outcome.status;
  }
  EXPECT_TRUE(waited);
}

// A damaged session: the fulfillment is refused, and then another alias gets the numbers of the first one.
TEST_F(RecordTest, AWaitForARefusedValueWhoseNumberIsTakenEnds) {
  Record([&](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto devices, client.AddressableDevices());
    ASSERT_OK_AND_ASSIGN(const auto memory, devices[0].DefaultMemory());
    ASSERT_OK_AND_ASSIGN(const Buffer other, client.ToDevice(Floats({1, 2})));
    ASSERT_OK_AND_ASSIGN(Client::Alias alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memory));
    std::vector<std::byte> bytes(16);
    ASSERT_OK_AND_ASSIGN(const Event read, alias.buffer.CopyToHost(absl::MakeSpan(bytes)));
    ASSERT_FALSE(alias.fulfill(&other).ok());
    ASSERT_OK(alias.fulfill(absl::AbortedError("planned")));
    EXPECT_FALSE(read.Await().ok());
  });
  const auto reader = SessionReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ReplayOptions options;
  options.promise_patience_ms = 50;
  Replayer replayer(**reader, *plugin_, options);
  Operation alias;
  bool was_refused = false, waited = false;
  for (size_t i = 0; i < (*reader)->size(); ++i) {
    const Operation op = *(*reader)->At(i);
    if (op.kind == Kind::kAlias) alias = op;
    if (op.kind == Kind::kFulfillAlias && was_refused) {
      EXPECT_TRUE(replayer.Step(alias).status.ok());  // in place of the second fulfillment
      continue;
    }
    const Outcome outcome = replayer.Step(op);
    if (op.kind == Kind::kFulfillAlias) was_refused = !outcome.status.ok();
    if (op.kind != Kind::kWait || !was_refused) continue;
    waited = true;
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled) << outcome.status;
  }
  EXPECT_TRUE(waited);
}

// The session fulfilled it; the replay offers a buffer of another shape, which the plugin refuses.
TEST_F(RecordTest, AWaitForWhatIsRefusedEnds) {
  Record([&](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto devices, client.AddressableDevices());
    ASSERT_OK_AND_ASSIGN(const auto memory, devices[0].DefaultMemory());
    ASSERT_OK_AND_ASSIGN(const Buffer other, client.ToDevice(Floats({1, 2})));
    ASSERT_OK_AND_ASSIGN(const Buffer value, client.ToDevice(Floats({1, 2, 3, 4})));
    ASSERT_OK_AND_ASSIGN(Client::Alias alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memory));
    ASSERT_OK(alias.fulfill(&value));
    ASSERT_OK(alias.buffer.ToHost().status());
  });
  const auto reader = SessionReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ReplayOptions options;
  options.promise_patience_ms = 50;
  Replayer replayer(**reader, *plugin_, options);
  uint64_t other = 0;
  bool was_refused = false, waited = false;
  for (size_t i = 0; i < (*reader)->size(); ++i) {
    Operation op = *(*reader)->At(i);
    if (op.kind == Kind::kFromHost && other == 0) other = op.makes[0];
    if (op.kind == Kind::kFulfillAlias) {
      op.uses[1] = other;
      was_refused = !replayer.Step(op).status.ok();
    } else if (const Outcome outcome = replayer.Step(op); was_refused && op.kind == Kind::kWait) {
      waited = true;
      EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled) << outcome.status;
    }
  }
  EXPECT_TRUE(waited);
}

TEST_F(RecordTest, MemoryThatAPluginDoesNotAcceptIsNotRead) {
  Record([&](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto devices, client.AddressableDevices());
    const int64_t dims[] = {int64_t{1} << 50};
    const char few[16] = {};
    BP_PJRT_ARGS(client.plugin(), a, PJRT_Client_BufferFromHostBuffer);
    a.client = client.raw();
    a.data = few;
    a.type = PJRT_Buffer_Type_U8;
    a.dims = dims;
    a.num_dims = 1;
    a.device = devices[0].raw();
    EXPECT_FALSE(BP_PJRT_CALL(client.plugin(), PJRT_Client_BufferFromHostBuffer, a).ok());
    BP_PJRT_ARGS(client.plugin(), u, PJRT_Client_CreateUninitializedBuffer);
    u.client = client.raw();
    u.shape_num_dims = 1;  // without an address of the dimensions
    u.shape_element_type = PJRT_Buffer_Type_U8;
    u.device = devices[0].raw();
    EXPECT_FALSE(BP_PJRT_CALL(client.plugin(), PJRT_Client_CreateUninitializedBuffer, u).ok());
    for (const size_t count : {size_t{2}, size_t{1} << 40}) {
      BP_PJRT_ARGS(client.plugin(), t, PJRT_Client_CreateBuffersForAsyncHostToDevice);
      t.client = client.raw();
      t.num_shape_specs = count;  // without an address
      EXPECT_FALSE(BP_PJRT_CALL(client.plugin(), PJRT_Client_CreateBuffersForAsyncHostToDevice, t).ok());
      a.dims = dims + 1;
      a.num_dims = 0;
      a.device_layout = nullptr;
      ASSERT_TRUE(BP_PJRT_CALL(client.plugin(), PJRT_Client_BufferFromHostBuffer, a).ok());
      BP_PJRT_ARGS(client.plugin(), b, PJRT_Buffer_Bitcast);
      b.buffer = a.buffer;
      b.element_type = PJRT_Buffer_Type_U8;
      b.num_dims = count;
      EXPECT_FALSE(BP_PJRT_CALL(client.plugin(), PJRT_Buffer_Bitcast, b).ok());
      PJRT_Buffer_MemoryLayout layout{};
      layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
      layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
      layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
      layout.tiled.minor_to_major_size = layout.tiled.num_tiles = count;
      b.num_dims = 0;
      b.device_layout = &layout;
      EXPECT_FALSE(BP_PJRT_CALL(client.plugin(), PJRT_Buffer_Bitcast, b).ok());
    }
  });
  EXPECT_EQ(Count(Kind::kFromHost), 3u);
  EXPECT_EQ(Count(Kind::kUninitialized), 1u);
}

TEST_F(RecordTest, TheMemoryOfAReadOutlivesItsEvent) {
  Record([](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto memories, client.AddressableMemories());
    ASSERT_OK_AND_ASSIGN(Client::Alias alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {1 << 20}}, memories[0]));
    std::vector<std::byte> bytes(4 << 20);
    ASSERT_OK_AND_ASSIGN(const Event read, alias.buffer.CopyToHost(absl::MakeSpan(bytes)));
    const HostArray zeros{PJRT_Buffer_Type_F32, {1 << 20}, std::vector<std::byte>(4 << 20)};
    ASSERT_OK_AND_ASSIGN(const Buffer value, client.ToDevice(zeros));
    ASSERT_OK(alias.fulfill(&value));
    ASSERT_OK(read.Await());
  });
  const auto reader = SessionReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  Replayer replayer(**reader, *plugin_, {});
  for (size_t i = 0; i < (*reader)->size(); ++i) {
    const Operation op = *(*reader)->At(i);
    ASSERT_OK(replayer.Step(op).status);
    if (op.kind != Kind::kRead) continue;
    Operation other;  // another object gets the number of the event before the value is available
    other.kind = Kind::kReadyEvent;
    other.uses = op.uses;
    other.makes = op.makes;
    ASSERT_OK(replayer.Step(other).status);
  }
}

// A plugin whose buffers are ready when they are awaited, and have their address before.
struct LatePlugin {
  // What the buffer has for memory. A test frees it when it destroys the buffer.
  static inline std::vector<float>* memory = nullptr;
  static inline bool is_ready = false;
  static inline const int64_t dims[1] = {1 << 22}, order[1] = {0};

  static PJRT_Api MakeTable() {
    PJRT_Api api{};
    api.struct_size = PJRT_Api_STRUCT_SIZE;
    api.pjrt_api_version.minor_version = PJRT_API_MINOR;
    api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args*) {};
    api.PJRT_Error_Message = [](PJRT_Error_Message_Args*) {};
    api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args*) -> PJRT_Error* { return nullptr; };
    api.PJRT_Buffer_OpaqueDeviceMemoryDataPointer =
        [](PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* a) -> PJRT_Error* {
      a->device_memory_ptr = memory->data();
      return nullptr;
    };
    api.PJRT_Buffer_IsOnCpu = [](PJRT_Buffer_IsOnCpu_Args* a) -> PJRT_Error* {
      a->is_on_cpu = true;
      return nullptr;
    };
    api.PJRT_Buffer_ElementType = [](PJRT_Buffer_ElementType_Args* a) -> PJRT_Error* {
      a->type = PJRT_Buffer_Type_F32;
      return nullptr;
    };
    api.PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* a) -> PJRT_Error* {
      a->dims = dims;
      a->num_dims = 1;
      return nullptr;
    };
    api.PJRT_Buffer_GetMemoryLayout = [](PJRT_Buffer_GetMemoryLayout_Args* a) -> PJRT_Error* {
      a->layout = {};
      a->layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
      a->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
      a->layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
      a->layout.tiled.minor_to_major = order;
      a->layout.tiled.minor_to_major_size = 1;
      return nullptr;
    };
    api.PJRT_Buffer_ReadyEvent = [](PJRT_Buffer_ReadyEvent_Args* a) -> PJRT_Error* {
      a->event = reinterpret_cast<PJRT_Event*>(&is_ready);
      return nullptr;
    };
    api.PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* a) -> PJRT_Error* {
      a->is_ready = is_ready;
      return nullptr;
    };
    api.PJRT_Event_Error = [](PJRT_Event_Error_Args*) -> PJRT_Error* { return nullptr; };
    api.PJRT_Event_Await = [](PJRT_Event_Await_Args*) -> PJRT_Error* {
      is_ready = true;
      return nullptr;
    };
    api.PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args*) -> PJRT_Error* { return nullptr; };
    api.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args*) -> PJRT_Error* {
      delete std::exchange(memory, nullptr);
      return nullptr;
    };
    return api;
  }
};

// A host that has the address of a buffer may destroy it before it waits for its event.
TEST_F(RecordTest, TheMemoryOfADestroyedBufferIsNotRead) {
  const PJRT_Api target = LatePlugin::MakeTable();
  for (const bool destroys_first : {false, true}) {
    LatePlugin::memory = new std::vector<float>(LatePlugin::dims[0], 1);
    LatePlugin::is_ready = false;
    {
      ASSERT_OK_AND_ASSIGN(auto layer, layers::MakeLayerByName("record", layers::Options("record", {{"file", path_}})));
      std::vector<std::unique_ptr<layers::Layer>> list;
      list.push_back(std::move(layer));
      ASSERT_OK_AND_ASSIGN(const auto stack, layers::Stack::Create(&target, "late", std::move(list)));
      ASSERT_OK_AND_ASSIGN(const host::Plugin* layered, host::Plugin::FromApi(stack->api(), "layered"));
      char object;
      BP_PJRT_ARGS(*layered, address, PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
      address.buffer = reinterpret_cast<PJRT_Buffer*>(&object);
      ASSERT_OK(BP_PJRT_CALL(*layered, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, address));
      BP_PJRT_ARGS(*layered, ready, PJRT_Buffer_ReadyEvent);
      ready.buffer = address.buffer;
      ASSERT_OK(BP_PJRT_CALL(*layered, PJRT_Buffer_ReadyEvent, ready));
      BP_PJRT_ARGS(*layered, wait, PJRT_Event_Await);
      wait.event = ready.event;
      BP_PJRT_ARGS(*layered, destroy, PJRT_Buffer_Destroy);
      destroy.buffer = address.buffer;
      ASSERT_OK(BP_PJRT_CALL(*layered, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, address));  // again
      if (destroys_first) ASSERT_OK(BP_PJRT_CALL(*layered, PJRT_Buffer_Destroy, destroy));
      ASSERT_OK(BP_PJRT_CALL(*layered, PJRT_Event_Await, wait));
      if (!destroys_first) ASSERT_OK(BP_PJRT_CALL(*layered, PJRT_Buffer_Destroy, destroy));
    }
    size_t reads = 0;
    for (const Operation& op : Operations()) reads += op.kind == Kind::kWait && !op.blobs.empty() ? 1 : 0;
    EXPECT_EQ(reads, destroys_first ? 0u : 1u);
    unlink(path_.c_str());
  }
}

TEST_F(RecordTest, ACodeThatIsNoneIsUnknown) {
  uint64_t promise = 0;
  Record([](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto memories, client.AddressableMemories());
    ASSERT_OK_AND_ASSIGN(Client::Alias alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memories[0]));
    ASSERT_OK(alias.fulfill(absl::AbortedError("planned")));
  });
  const auto reader = SessionReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  Replayer replayer(**reader, *plugin_, {});
  for (size_t i = 0; i < (*reader)->size(); ++i) {
    Operation op = *(*reader)->At(i);
    if (op.kind == Kind::kFulfillAlias) {
      promise = op.uses[0];
      op.numbers[0] = int64_t{1} << 40;  // truncated to an int it would be OK
    }
    ASSERT_OK(replayer.Step(op).status);
  }
  EXPECT_NE(promise, 0u);
}

TEST_F(RecordTest, AnAliasIsFulfilledAfterARefusal) {
  Record([&](Client& client) {
    ASSERT_OK_AND_ASSIGN(const auto devices, client.AddressableDevices());
    ASSERT_OK_AND_ASSIGN(const auto memory, devices[0].DefaultMemory());
    ASSERT_OK_AND_ASSIGN(Client::Alias alias, client.AliasBuffer({PJRT_Buffer_Type_F32, {4}}, memory));
    ASSERT_OK_AND_ASSIGN(const Buffer shorter, client.ToDevice(HostArray::Of<float>({3}, {1, 2, 3})));
    ASSERT_OK_AND_ASSIGN(const Buffer right, client.ToDevice(HostArray::Of<float>({4}, {1, 2, 3, 4})));
    EXPECT_FALSE(alias.fulfill(&shorter).ok());
    ASSERT_OK(alias.fulfill(&right));
    ASSERT_OK(alias.buffer.ToHost().status());
  });
  size_t reads = 0;
  EXPECT_EQ(ReplayedOtherwise(&reads), kNothing);
  EXPECT_EQ(reads, 1u);
}

TEST_F(RecordTest, ManyThreads) {
  Record([](Client& client) {
    ASSERT_OK_AND_ASSIGN(const LoadedExecutable add, client.Compile({"mlir", kAdd}));
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          const Buffer x = *client.ToDevice(Floats({static_cast<float>(t), static_cast<float>(i), 1, 2}));
          const std::vector<Buffer> out = *add.Execute({&x, &x});
          EXPECT_EQ(out[0].ToHost()->Values<float>()[1], 2.0f * static_cast<float>(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  size_t reads = 0;
  EXPECT_EQ(ReplayedOtherwise(&reads), kNothing);
  EXPECT_EQ(reads, 200u);
  std::set<uint32_t> threads;
  uint64_t last = 0;
  for (const Operation& op : Operations()) {
    threads.insert(op.thread);
    EXPECT_EQ(op.number, last + 1);
    last = op.number;
  }
  EXPECT_GE(threads.size(), 9u);
}

TEST_F(RecordTest, DigestsOnly) {
  const auto host = [](Client& client) {
    ASSERT_OK_AND_ASSIGN(const Buffer x,
                         client.ToDevice(HostArray::Of<float>({1000}, std::vector<float>(1000, 3.25f))));
    ASSERT_OK(x.ToHost().status());
  };
  Record(host, {{"data", "none"}});
  for (const Operation& op : Operations()) {
    if (op.kind == Kind::kFromHost) {
      EXPECT_TRUE(op.data_left_out && op.blobs.size() == 1);
    }
  }
  const std::vector<std::string> wrong = ReplayedOtherwise();
  ASSERT_FALSE(wrong.empty());
  EXPECT_NE(wrong[0].find("without data"), std::string::npos) << wrong[0];
  // The file contains the data that the host wrote, and digests of what it read.
  Record(host, {{"data", "inputs"}});
  EXPECT_EQ(ReplayedOtherwise(), kNothing);
}

TEST_F(RecordTest, ASecondCopyWritesBeside) {
  const auto make = [&] { return layers::MakeLayerByName("record", layers::Options("record", {{"file", path_}})); };
  const std::string beside = path_.substr(0, path_.size() - 6) + ".2.bprec";
  {
    ASSERT_OK_AND_ASSIGN(const auto first, make());
    ASSERT_OK_AND_ASSIGN(const auto second, make());
    EXPECT_EQ(access(beside.c_str(), F_OK), 0);
  }
  EXPECT_EQ(unlink(beside.c_str()), 0);
  ASSERT_OK(make().status());
  EXPECT_NE(access(beside.c_str(), F_OK), 0);
}

TEST_F(RecordTest, SettingsThatMakeNoSense) {
  const auto make = [&](const char* name, const char* value) {
    return layers::MakeLayerByName("record", layers::Options("record", {{"file", path_}, {name, value}})).status();
  };
  EXPECT_EQ(make("data", "some").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(make("compression", "20").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(make("limit", "much").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(make("fil", "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(layers::MakeLayerByName("record", layers::Options("record", {{"file", "/nowhere/at/all"}})).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace backplane::record
