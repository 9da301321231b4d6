// Tests the queue backend without the shim: the device orders its work by signals, without the host, and the backend
// follows the rules of the interface about memory, threads and errors.
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "core/import/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "samples/queue_backend/client.h"
#include "sdk/testing/api_calls.h"

namespace queue_backend {
namespace {

using backplane::HostUse;
using backplane::PrimitiveType;
using backplane::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps a thread of the backend busy until it is released.
class Stall {
 public:
  explicit Stall(chip::Thread& thread) {
    auto begun = std::make_shared<std::promise<void>>();
    thread.Push([begun, wait = go_.get_future().share()] {
      begun->set_value();
      wait.wait();
    });
    begun->get_future().wait();
  }
  ~Stall() { Release(); }
  void Release() {
    if (!gone_) go_.set_value();
    gone_ = true;
  }

 private:
  std::promise<void> go_;
  bool gone_ = false;
};

Shape Vector(int64_t n) {
  Shape shape(PrimitiveType::kF32, {n});
  shape.set_row_major();
  return shape;
}

class QueueBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    backend_ = backplane::CreateBackend({std::make_shared<NoCalls>()});
    auto client = backend_->CreateClient({{"memory_bytes", int64_t{1} << 20}});
    ASSERT_TRUE(client.ok()) << client.status();
    owner_ = *std::move(client);
    client_ = static_cast<QueueClient*>(owner_.get());
  }
  struct NoCalls : backplane::CustomCallRegistry {
    bool Has(const std::string&) const override { return false; }
    absl::StatusOr<std::unique_ptr<backplane::CustomCallSite>> Instantiate(const backplane::CustomCallSpec&) override {
      return absl::NotFoundError("no custom calls");
    }
  };

  DeviceArray Room(int32_t memory, int64_t n = 4) {
    return {Vector(n), memory, *client_->Allocate(memory, static_cast<size_t>(n) * 4), Event()};
  }
  DeviceArray Send(const std::vector<float>& values, int32_t memory = 0, Event* released = nullptr) {
    DeviceArray array = Room(memory, static_cast<int64_t>(values.size()));
    const int64_t n = array.shape.dimensions(0), stride = 4;
    backplane::CopyFromHostEvents events = client_->StartCopyFromHost(
        {values.data(), PrimitiveType::kF32, {&n, 1}, {&stride, 1}}, array, HostUse::kUntilReleased);
    array.ready = events.done;
    if (released != nullptr) *released = events.host_released;
    return array;
  }
  std::unique_ptr<backplane::LoadedExecutable> Add() {
    auto module = backplane::ImportProgram("mlir", backplane::testing::kAdd);
    auto executable = backend_->Compile(*std::move(module), {}, client_->topology());
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *client_->Load(*executable, {});
  }
  backplane::ExecuteResult Run(backplane::LoadedExecutable& program, std::vector<DeviceArray> arguments) {
    backplane::ExecuteRequest request;
    static int64_t run_id = 0;
    static constexpr int32_t kDevice = 0;
    request.run_id = ++run_id;
    request.device_assignment = {&kDevice, 1};
    request.donated.resize(arguments.size());
    request.arguments = std::move(arguments);
    auto result = program.Execute(std::move(request));
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  std::unique_ptr<backplane::Backend> backend_;
  std::unique_ptr<backplane::Client> owner_;
  QueueClient* client_ = nullptr;
};

// Runs a copy, two programs and a copy while the driver's thread is blocked: the values arrive although the host is not
// told of any end.
TEST_F(QueueBackendTest, TheDeviceOrdersItsWorkWithoutTheHost) {
  std::unique_ptr<backplane::LoadedExecutable> add = Add();
  alignas(64) float out[4] = {};
  ASSERT_TRUE(client_->RegisterHostMemory(out, sizeof(out)).ok());
  Stall driver(client_->driver());
  DeviceArray x = Send({1, 2, 3, 4});
  DeviceArray sum = Run(*add, {x, x}).outputs[0];
  DeviceArray more = Run(*add, {sum, x}).outputs[0];
  const Event done = client_->StartCopyToHost(more, more.shape, out);
  for (const Event& e : {x.ready, sum.ready, more.ready, done}) EXPECT_NE(e.signal(), nullptr);
  std::promise<void> raised;
  FindSignal<chip::Signal>(done)->Then([&raised](bool) { raised.set_value(); });
  raised.get_future().wait();
  EXPECT_THAT(out, ElementsAre(3, 6, 9, 12));
  for (const Event& e : {x.ready, sum.ready, more.ready, done}) EXPECT_FALSE(e.IsReady());
  driver.Release();
  EXPECT_TRUE(done.Await().ok());
  EXPECT_EQ(done.signal(), nullptr);
  EXPECT_TRUE(client_->UnregisterHostMemory(out).ok());
  EXPECT_FALSE(client_->UnregisterHostMemory(out).ok());
}

TEST_F(QueueBackendTest, RegisteredMemoryIsReadWhereItIsAndOtherIsPacked) {
  Stall copies(client_->chip(0).copies.thread());
  std::vector<float> pageable = {1, 2, 3, 4}, registered = {5, 6, 7, 8};
  ASSERT_TRUE(client_->RegisterHostMemory(registered.data(), 16).ok());
  Event packed, direct;
  DeviceArray a = Send(pageable, 0, &packed), b = Send(registered, 0, &direct);
  EXPECT_TRUE(packed.IsReady());
  EXPECT_FALSE(direct.IsReady());
  pageable[0] = 9;  // ours again
  copies.Release();
  ASSERT_TRUE(direct.Await().ok());
  float out[4];
  ASSERT_TRUE(client_->StartCopyToHost(a, a.shape, out).Await().ok());
  EXPECT_THAT(out, ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(client_->StartCopyToHost(b, b.shape, out).Await().ok());
  EXPECT_THAT(out, ElementsAre(5, 6, 7, 8));
  EXPECT_TRUE(client_->UnregisterHostMemory(registered.data()).ok());
}

TEST_F(QueueBackendTest, WhatWaitsForTheHostHasNoSignal) {
  std::unique_ptr<backplane::LoadedExecutable> add = Add();
  DeviceArray x = Send({1, 2, 3, 4});
  const Event host = Event::Create();
  DeviceArray late = x;
  late.ready = host;
  DeviceArray sum = Run(*add, {x, late}).outputs[0];
  EXPECT_EQ(sum.ready.signal(), nullptr);
  EXPECT_FALSE(sum.ready.IsReady());
  host.Set();
  EXPECT_TRUE(sum.ready.Await().ok());
  // An error on the host is passed on to the work that waits for it.
  late.ready = Event::Create();
  DeviceArray failed = Run(*add, {x, late}).outputs[0];
  const Event behind = Run(*add, {failed, x}).done;
  late.ready.Set(absl::DataLossError("lost"));
  EXPECT_EQ(behind.Await(), absl::DataLossError("lost"));
}

TEST_F(QueueBackendTest, AFailureOnTheDeviceReachesAllBehindIt) {
  std::unique_ptr<backplane::LoadedExecutable> add = Add();
  DeviceArray x = Send({1, 2, 3, 4});
  Stall programs(client_->chip(0).programs.thread());
  Work work{"fails", "", {}, {x.storage}, [] { return absl::DataLossError("a bit fell over"); }, {}, {}};
  DeviceArray bad = x;
  bad.ready = client_->Submit(client_->chip(0).programs, std::move(work));
  DeviceArray sum = Run(*add, {bad, x}).outputs[0];
  float out[4];
  const Event copied = client_->StartCopyToHost(sum, sum.shape, out);
  EXPECT_NE(copied.signal(), nullptr);
  programs.Release();
  EXPECT_EQ(copied.Await(), absl::DataLossError("a bit fell over"));
}

TEST_F(QueueBackendTest, MemoryIsLimitedAndLivesAsLongAsItIsUsed) {
  EXPECT_EQ(client_->Allocate(0, size_t{2} << 20).status().code(), absl::StatusCode::kResourceExhausted);
  const auto in_use = [&] { return client_->GetMemoryStats(0)->bytes_in_use; };
  const Event done = [&] {
    std::unique_ptr<backplane::LoadedExecutable> add = Add();
    Stall copies(client_->chip(0).copies.thread());
    DeviceArray x = Send({1, 2, 3, 4});
    const Event end = Run(*add, {x, x}).done;
    x = {};
    EXPECT_GT(in_use(), 0);  // the queues hold it
    copies.Release();
    (void)end.Await();
    return end;
  }();
  EXPECT_TRUE(done.Await().ok());
  EXPECT_EQ(in_use(), 0);
}

TEST_F(QueueBackendTest, CopiesBetweenChipsAndLayouts) {
  DeviceArray x = Send({1, 2, 3, 4});
  x.shape = Shape(PrimitiveType::kF32, {2, 2});
  x.shape.set_row_major();
  DeviceArray other = Room(2), pinned = Room(1), turned = Room(0);
  other.shape = pinned.shape = turned.shape = x.shape;
  turned.shape.mutable_layout().minor_to_major = {0, 1};
  other.ready = client_->StartCopyDevice(x, other);
  pinned.ready = client_->StartCopyDevice(other, pinned);
  turned.ready = client_->StartCopyDevice(other, turned);
  ASSERT_TRUE(pinned.ready.Await().ok());
  const float* at = static_cast<const float*>(pinned.storage->data());
  EXPECT_THAT(std::vector<float>(at, at + 4), ElementsAre(1, 2, 3, 4));
  float out[4];
  ASSERT_TRUE(client_->StartCopyToHost(turned, turned.shape, out).Await().ok());
  EXPECT_THAT(out, ElementsAre(1, 3, 2, 4));
}

// The device ends the process if a rule is broken.
TEST(ChipDeathTest, IsStrict) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        chip::Thread driver;
        chip::Queue queue(0, "copies", &driver);
        chip::Memory memory(1 << 20);
        void* address = *memory.Allocate(64);
        chip::Command command;
        command.after.push_back(std::make_shared<chip::Signal>());  // never raised
        command.addresses.push_back(address);
        queue.Push(std::move(command));
        memory.Free(address, 64);
      },
      "freed under a command");
  EXPECT_DEATH(
      {
        auto* thread = new chip::Thread;
        thread->Push([thread] { delete thread; });
        sleep(10);
      },
      "ended on its own thread");
  chip::Memory memory(1 << 20);
  void* address = *memory.Allocate(64);
  EXPECT_DEATH(std::printf("%f", static_cast<double>(*static_cast<const float*>(address))), "");
  memory.Free(address, 64);
}

// Through the whole C ABI: the host destroys everything while copies and programs are in progress.
TEST(QueueBackendAbiTest, TheHostMayLetGoAtAnyTime) {
  using namespace backplane::testing;  // NOLINT
  for (int round = 0; round < 50; ++round) {
    BP_ARGS(c, PJRT_Client_Create);
    ASSERT_TRUE(BP_CALL(PJRT_Client_Create, c).ok());
    PJRT_Device* device = Devices(c.client)[round % 2];
    PJRT_LoadedExecutable* add = MustCompile(c.client, kDonate, OptionsFor(1, 1, /*portable=*/true));
    PJRT_Buffer* x = NewBuffer(c.client, device, {1, 2, 3, 4});
    PJRT_Buffer* one = NewBuffer(c.client, device, {1, 1, 1, 1});
    std::vector<float> out(4);
    PJRT_Event* fetched = nullptr;
    for (int step = 0; step < 10; ++step) {
      std::vector<std::vector<PJRT_Buffer*>> results;
      ASSERT_TRUE(Execute(add, {{x, one}}, 1, &results, nullptr, nullptr, device).ok());
      Destroy(x);
      x = results[0][0];
      if (step == 4) {  // its memory must not be written by the next step before this has been read
        BP_ARGS(h, PJRT_Buffer_ToHostBuffer);
        h.src = x;
        h.dst = out.data();
        h.dst_size = 16;
        ASSERT_TRUE(BP_CALL(PJRT_Buffer_ToHostBuffer, h).ok());
        fetched = h.event;
      }
    }
    if (round % 3 == 0) {
      EXPECT_EQ(Values(x), (std::vector<float>{11, 12, 13, 14}));
    }
    Destroy(x);
    Destroy(one);
    Destroy(add);
    Destroy(c.client);
    EXPECT_TRUE(AwaitAndDestroy(fetched).ok());
    EXPECT_THAT(out, ElementsAre(6, 7, 8, 9));
  }
}

}  // namespace
}  // namespace queue_backend
