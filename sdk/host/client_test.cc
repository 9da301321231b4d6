// Tests the client with two plugins: our shim in this process, and one that we did not build, if it is installed.
#include "sdk/host/client.h"

#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/host/test_macros.h"
#include "sdk/testing/api_calls.h"

// Ignores leaks of the plugin that we did not build.
extern "C" const char* __lsan_default_suppressions() { return "leak:pjrt_c_api_cpu_plugin.so\n"; }

namespace backplane::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Peer {
  const char* name;
  const char* path;  // null: in this process
};

class ClientTest : public ::testing::TestWithParam<Peer> {
 protected:
  void SetUp() override {
    const Peer& peer = GetParam();
    if (peer.path != nullptr) {
      struct stat info;
      if (stat(peer.path, &info) != 0) GTEST_SKIP() << peer.path << " is not installed";
      ASSERT_OK_AND_ASSIGN(plugin_, Plugin::Load(peer.path));
    } else {
      ASSERT_OK_AND_ASSIGN(plugin_, Plugin::FromApi(GetPjrtApi(), "in process"));
    }
    const NamedValue devices(peer.path != nullptr ? "cpu_device_count" : "devices", 2);
    ASSERT_OK_AND_ASSIGN(Client client, Client::Create(*plugin_, {devices}));
    client_.emplace(std::move(client));
  }
  bool ours() const { return GetParam().path == nullptr; }

  const Plugin* plugin_ = nullptr;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Plugins, ClientTest,
                         ::testing::Values(Peer{"shim", nullptr}, Peer{"xla", BACKPLANE_XLA_CPU_PLUGIN}),
                         [](const auto& info) { return info.param.name; });

const Program kAdd{"mlir", testing::kAdd};
const Program kDonate{"mlir", testing::kDonate};

TEST_P(ClientTest, TellsWhatItIs) {
  ASSERT_OK_AND_ASSIGN(std::string name, client_->PlatformName());
  EXPECT_FALSE(name.empty());
  ASSERT_OK_AND_ASSIGN(std::vector<Device> devices, client_->AddressableDevices());
  ASSERT_EQ(devices.size(), 2u);
  ASSERT_OK_AND_ASSIGN(int id, devices[1].Id());
  ASSERT_OK_AND_ASSIGN(Device same, client_->LookupDevice(id));
  EXPECT_TRUE(same == devices[1]);
  ASSERT_OK_AND_ASSIGN(Memory memory, devices[0].DefaultMemory());
  ASSERT_OK_AND_ASSIGN(std::string kind, memory.Kind());
  ASSERT_OK_AND_ASSIGN(Memory found, devices[0].MemoryOfKind(kind));
  EXPECT_TRUE(found == memory);
  EXPECT_EQ(devices[0].MemoryOfKind("none").status().code(), absl::StatusCode::kNotFound);
  ASSERT_OK_AND_ASSIGN(std::vector<NamedValue> attributes, plugin_->Attributes());
  EXPECT_NE(Find(attributes, "stablehlo_current_version"), nullptr);
  ASSERT_OK_AND_ASSIGN(std::vector<int> assignment, client_->DefaultDeviceAssignment(2, 1));
  EXPECT_EQ(assignment.size(), 2u);
}

TEST_P(ClientTest, CarriesErrorsWithTheirCode) {
  const absl::Status no_device = client_->LookupDevice(12345).status();
  EXPECT_FALSE(no_device.ok());
  EXPECT_FALSE(no_device.message().empty());
  EXPECT_FALSE(client_->Compile({"mlir", "module { nonsense"}).ok());
  ASSERT_OK_AND_ASSIGN(LoadedExecutable add, client_->Compile(kAdd));
  const std::vector<const Buffer*> none;
  const absl::Status too_few = add.Execute(none).status();
  EXPECT_EQ(too_few.code(), absl::StatusCode::kInvalidArgument) << too_few;
}

TEST_P(ClientTest, CopiesArraysBothWays) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.5f);
  ASSERT_OK_AND_ASSIGN(Buffer buffer, client_->ToDevice(HostArray::Of<float>({2, 3, 4}, values)));
  ASSERT_OK_AND_ASSIGN(std::string shape, buffer.FormatShape());
  EXPECT_EQ(shape, "f32[2,3,4]");
  ASSERT_OK_AND_ASSIGN(HostArray back, buffer.ToHost());
  EXPECT_EQ(back.Values<float>(), absl::MakeConstSpan(values));
  // Transposed by strides: element [i,j] is at byte 4 i + 16 j.
  const int32_t matrix[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int64_t dims[] = {4, 2}, strides[] = {4, 16};
  ASSERT_OK_AND_ASSIGN(Buffer transposed, client_->ToDevice(HostView{matrix, PJRT_Buffer_Type_S32, dims, strides}));
  ASSERT_OK_AND_ASSIGN(back, transposed.ToHost());
  EXPECT_THAT(back.Values<int32_t>(), ElementsAre(1, 5, 2, 6, 3, 7, 4, 8));
  // An array without elements and an array without dimensions.
  ASSERT_OK_AND_ASSIGN(Buffer empty, client_->ToDevice(HostArray::Of<float>({0, 3}, {})));
  ASSERT_OK_AND_ASSIGN(back, empty.ToHost());
  EXPECT_TRUE(back.data.empty());
  ASSERT_OK_AND_ASSIGN(Buffer scalar, client_->ToDevice(HostArray::Of<double>({}, {2.5})));
  ASSERT_OK_AND_ASSIGN(back, scalar.ToHost());
  EXPECT_THAT(back.Values<double>(), ElementsAre(2.5));
  // A size that does not fit the shape is an error of this library; the plugin does not see it.
  EXPECT_EQ(client_->ToDevice(HostArray::Of<float>({3}, {1, 2})).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ClientTest, RunsAProgramAndTellsAboutIt) {
  ASSERT_OK_AND_ASSIGN(LoadedExecutable add, client_->Compile(kAdd));
  ASSERT_OK_AND_ASSIGN(Executable executable, add.GetExecutable());
  ASSERT_OK_AND_ASSIGN(size_t outputs, executable.NumOutputs());
  EXPECT_EQ(outputs, 1u);
  ASSERT_OK_AND_ASSIGN(std::vector<ArrayShape> shapes, executable.OutputShapes());
  ASSERT_EQ(shapes.size(), 1u);
  EXPECT_EQ(FormatShape(shapes[0].type, shapes[0].dims), "f32[4]");
  ASSERT_OK_AND_ASSIGN(Program optimized, executable.OptimizedProgram());
  EXPECT_FALSE(optimized.code.empty());
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<float>({4}, {1, 2, 3, 4})));
  ASSERT_OK_AND_ASSIGN(Buffer y, client_->ToDevice(HostArray::Of<float>({4}, {10, 20, 30, 40})));
  ASSERT_OK_AND_ASSIGN(std::vector<Buffer> out, add.Execute({&x, &y}));
  ASSERT_OK_AND_ASSIGN(HostArray sum, out[0].ToHost());
  EXPECT_THAT(sum.Values<float>(), ElementsAre(11, 22, 33, 44));
  // One argument too few, and a buffer that is null.
  EXPECT_FALSE(add.Execute({&x}).ok());
  const Buffer none;
  EXPECT_EQ(add.Execute({&x, &none}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ClientTest, DonatesUnlessToldNotTo) {
  ASSERT_OK_AND_ASSIGN(LoadedExecutable donate, client_->Compile(kDonate));
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<float>({4}, {1, 2, 3, 4})));
  ASSERT_OK_AND_ASSIGN(Buffer y, client_->ToDevice(HostArray::Of<float>({4}, {1, 1, 1, 1})));
  ExecuteOptions keep;
  keep.non_donatable = {0};
  ASSERT_OK_AND_ASSIGN(std::vector<Buffer> kept, donate.Execute({&x, &y}, keep));
  ASSERT_OK_AND_ASSIGN(bool deleted, x.IsDeleted());
  EXPECT_FALSE(deleted);
  ASSERT_OK_AND_ASSIGN(std::vector<Buffer> out, donate.Execute({&x, &y}));
  ASSERT_OK_AND_ASSIGN(deleted, x.IsDeleted());
  EXPECT_TRUE(deleted);
  ASSERT_OK_AND_ASSIGN(HostArray sum, out[0].ToHost());
  EXPECT_THAT(sum.Values<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_FALSE(x.ToHost().ok());
  EXPECT_FALSE(donate.Execute({&x, &y}).ok());
}

TEST_P(ClientTest, RunsOnSeveralDevicesAndGivesEvents) {
  CompileOptions options;
  options.num_replicas = 2;
  ASSERT_OK_AND_ASSIGN(LoadedExecutable add, client_->Compile(kAdd, options));
  ASSERT_OK_AND_ASSIGN(std::vector<Device> devices, add.AddressableDevices());
  ASSERT_EQ(devices.size(), 2u);
  std::vector<Buffer> inputs;
  for (const Device& device : devices) {
    const float base = static_cast<float>(inputs.size());
    ASSERT_OK_AND_ASSIGN(Buffer b, client_->ToDevice(HostArray::Of<float>({4}, {base, 1, 2, 3}), device));
    inputs.push_back(std::move(b));
  }
  ExecuteOptions wanted;
  wanted.want_events = true;
  wanted.launch_id = 7;
  ASSERT_OK_AND_ASSIGN(ExecuteResult result, add.Execute({{&inputs[0], &inputs[0]}, {&inputs[1], &inputs[1]}}, wanted));
  ASSERT_EQ(result.done.size(), 2u);
  for (const Event& done : result.done) ASSERT_OK(done.Await());
  ASSERT_OK_AND_ASSIGN(HostArray second, result.outputs[1][0].ToHost());
  EXPECT_THAT(second.Values<float>(), ElementsAre(2, 2, 4, 6));
  // Lists of different lengths are refused before the call.
  EXPECT_EQ(add.Execute({{&inputs[0], &inputs[0]}, {&inputs[1]}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ClientTest, EventsCallBack) {
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<float>({4}, {1, 2, 3, 4})));
  std::atomic<int> called = 0;
  {
    ASSERT_OK_AND_ASSIGN(Event ready, x.ReadyEvent());
    auto owned = std::make_unique<int>(5);  // a callback may own objects that cannot be copied
    ASSERT_OK(
        ready.OnReady([&, owned = std::move(owned)](absl::Status status) { called = status.ok() ? *owned : -1; }));
  }
  ASSERT_OK(x.Await());
  for (int i = 0; i < 1000 && called == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(called, 5);
  ASSERT_OK(x.Delete());
  EXPECT_FALSE(x.Await().ok());
}

TEST_P(ClientTest, BuffersKeepThePlatformOpen) {
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<int32_t>({2}, {8, 9})));
  client_.reset();
  ASSERT_OK_AND_ASSIGN(HostArray back, x.ToHost());
  EXPECT_THAT(back.Values<int32_t>(), ElementsAre(8, 9));
}

TEST_P(ClientTest, FillsBuffersPieceByPiece) {
  ASSERT_OK_AND_ASSIGN(std::vector<Device> devices, client_->AddressableDevices());
  ASSERT_OK_AND_ASSIGN(Memory memory, devices[0].DefaultMemory());
  ASSERT_OK_AND_ASSIGN(AsyncTransfer transfer, client_->StartTransfer({ArrayShape{PJRT_Buffer_Type_F32, {4}}}, memory));
  ASSERT_OK_AND_ASSIGN(Buffer buffer, transfer.Retrieve(0));
  const float values[] = {1, 2, 3, 4};
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  ASSERT_OK_AND_ASSIGN(Event first, transfer.Send(0, {bytes, 8}, 0, false));
  ASSERT_OK_AND_ASSIGN(Event second, transfer.Send(0, {bytes + 8, 8}, 8, true));
  ASSERT_OK(first.Await());
  ASSERT_OK(second.Await());
  ASSERT_OK_AND_ASSIGN(HostArray back, buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(1, 2, 3, 4));
}

TEST_P(ClientTest, SharesMemory) {
  alignas(64) float memory[16] = {1, 2, 3, 4};
  std::atomic<int> gone = 0;
  const int64_t dims[] = {16};
  {
    ASSERT_OK_AND_ASSIGN(Buffer view, client_->View({memory, PJRT_Buffer_Type_F32, dims}, [&] { ++gone; }));
    ASSERT_OK_AND_ASSIGN(ExternalReference reference, view.Reference());
    EXPECT_EQ(reference.data(), memory);
    ASSERT_OK_AND_ASSIGN(HostArray back, view.ToHost());
    EXPECT_EQ(back.Values<float>()[3], 4);
  }
  for (int i = 0; i < 1000 && gone == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(gone, 1);
}

TEST_P(ClientTest, SerializesPrograms) {
  ASSERT_OK_AND_ASSIGN(LoadedExecutable add, client_->Compile(kAdd));
  ASSERT_OK_AND_ASSIGN(Executable executable, add.GetExecutable());
  ASSERT_OK_AND_ASSIGN(std::string bytes, executable.Serialize());
  ASSERT_OK_AND_ASSIGN(LoadedExecutable again, client_->Deserialize(bytes));
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<float>({4}, {1, 2, 3, 4})));
  ASSERT_OK_AND_ASSIGN(std::vector<Buffer> out, again.Execute({&x, &x}));
  ASSERT_OK_AND_ASSIGN(HostArray sum, out[0].ToHost());
  EXPECT_THAT(sum.Values<float>(), ElementsAre(2, 4, 6, 8));
}

TEST_P(ClientTest, ManyThreadsShareOneExecutable) {
  ASSERT_OK_AND_ASSIGN(LoadedExecutable add, client_->Compile(kAdd));
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const float v = static_cast<float>(t);
      absl::StatusOr<Buffer> x = client_->ToDevice(HostArray::Of<float>({4}, {v, v, v, v}));
      if (!x.ok()) return;
      absl::StatusOr<std::vector<Buffer>> out = add.Execute({&*x, &*x});
      if (!out.ok()) return;
      absl::StatusOr<HostArray> sum = (*out)[0].ToHost();
      if (sum.ok() && sum->Values<float>()[2] == 2 * v) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
}

TEST_P(ClientTest, EventsOfTheHostAndPoisonedDependencies) {
  if (!ours()) GTEST_SKIP() << "a platform may answer UNIMPLEMENTED here";
  ASSERT_OK_AND_ASSIGN(auto made, client_->CreateEvent());
  ASSERT_OK_AND_ASSIGN(bool ready, made.first.IsReady());
  EXPECT_FALSE(ready);
  ASSERT_OK(made.second(absl::DataLossError("lost on the way")));
  EXPECT_EQ(made.first.Await(), absl::DataLossError("lost on the way"));
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<float>({2}, {1, 2})));
  {
    ASSERT_OK_AND_ASSIGN(Buffer::Dependent dependent, x.DonateWithControlDependency());
    dependent.done(absl::OkStatus());
    ASSERT_OK_AND_ASSIGN(HostArray back, dependent.buffer.ToHost());
    EXPECT_THAT(back.Values<float>(), ElementsAre(1, 2));
    ASSERT_OK_AND_ASSIGN(Buffer::Dependent dropped, dependent.buffer.DonateWithControlDependency());
    Buffer left = std::move(dropped.buffer);
    dropped.done = nullptr;  // destroyed without a call
    EXPECT_EQ(left.Await().code(), absl::StatusCode::kCancelled);
  }
}

TEST_P(ClientTest, AnAliasIsFulfilledOnceOrGivenUp) {
  if (!ours()) GTEST_SKIP() << "a platform may answer UNIMPLEMENTED here";
  ASSERT_OK_AND_ASSIGN(std::vector<Device> devices, client_->AddressableDevices());
  ASSERT_OK_AND_ASSIGN(Memory memory, devices[0].DefaultMemory());
  ASSERT_OK_AND_ASSIGN(Buffer x, client_->ToDevice(HostArray::Of<float>({2}, {1, 2})));
  ASSERT_OK_AND_ASSIGN(Client::Alias alias, client_->AliasBuffer({PJRT_Buffer_Type_F32, {2}}, memory));
  EXPECT_EQ(alias.fulfill(nullptr).code(), absl::StatusCode::kInvalidArgument);  // takes nothing
  ASSERT_OK(alias.fulfill(&x));
  EXPECT_EQ(alias.fulfill(&x).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK_AND_ASSIGN(HostArray back, alias.buffer.ToHost());
  EXPECT_THAT(back.Values<float>(), ElementsAre(1, 2));
  ASSERT_OK_AND_ASSIGN(Client::Alias dropped, client_->AliasBuffer({PJRT_Buffer_Type_F32, {2}}, memory));
  dropped.fulfill = nullptr;
  EXPECT_EQ(dropped.buffer.Await().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace backplane::host
