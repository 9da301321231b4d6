// Tests launches that fail half-way, concurrent donations, run ids, load options, and work that is lost, throws, or
// outlives its client.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/testing/api_calls.h"
#include "sdk/testing/fake_backend.h"

namespace backplane::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<PJRT_Buffer*>>;

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The last task of an earlier test may still hold its client.
    ASSERT_TRUE(Eventually([&] { return control_.clients == 0; }));
    storages_ = control_.storages;
    control_.run_ids.clear();
    control_.abandoned.clear();
    client_ = NewClient(2);
    devices_ = Devices(client_);
    x_ = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
    far_ = NewBuffer(client_, devices_[1], {5, 6, 7, 8});
  }
  void TearDown() override {
    for (PJRT_Buffer* b : {x_, far_}) {
      if (b != nullptr) Destroy(b);
    }
    if (client_ != nullptr) Destroy(client_);
    EXPECT_EQ(control_.storages, storages_) << "storages leaked";
    EXPECT_EQ(control_.executables, 0) << "loaded executables leaked";
    // A thread that has set an event may still hold the client.
    EXPECT_TRUE(Eventually([&] { return control_.clients == 0; })) << control_.clients << " clients leaked";
  }
  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return holds();
  }

  FakeControl& control_ = FakeControl::Get();
  int64_t storages_ = 0;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
  PJRT_Buffer *x_ = nullptr, *far_ = nullptr;
};

TEST_F(LaunchTest, ADeviceThatRunsKeepsWhatItNeedsWhenTheNextOneFails) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd, OptionsFor(2, 1));
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate);
  PJRT_Buffer* y = NewBuffer(client_, devices_[0], {10, 20, 30, 40});
  control_.Hold();
  control_.FailNext(absl::ResourceExhaustedError("no queue"), /*at_launch=*/true, /*later=*/1);
  Rows out;
  const absl::Status status = Execute(add, {{x_, y}, {far_, far_}}, 1, &out);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Fake(id=1): no queue"));
  EXPECT_THAT(out[0], ElementsAre(nullptr));
  ASSERT_EQ(control_.run_ids.size(), 2u);
  EXPECT_THAT(control_.abandoned, ElementsAre(control_.run_ids[0]));
  // The first device still reads y, so its memory must not be written.
  ASSERT_TRUE(Execute(donate, {{y, x_}}, 1, &out).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(false, false));
  Destroy(out[0][0]);
  // The host may destroy everything.
  Destroy(y);
  Destroy(add);
  Destroy(donate);
  Destroy(x_);
  Destroy(far_);
  Destroy(client_);
  x_ = far_ = nullptr;
  client_ = nullptr;
  EXPECT_EQ(control_.executables, 2);
  EXPECT_EQ(control_.clients, 1);
  control_.ReleaseAll();
  EXPECT_EQ(control_.executables, 0);
  EXPECT_TRUE(Eventually([&] { return control_.clients == 0; }));
}

TEST_F(LaunchTest, WhatWasNotLaunchedKeepsItsDonatedBuffers) {
  PJRT_LoadedExecutable* one = MustCompile(client_, kDonate);
  PJRT_LoadedExecutable* two = MustCompile(client_, kDonate, OptionsFor(2, 1));
  Rows out;
  control_.FailNext(absl::ResourceExhaustedError("no queue"), /*at_launch=*/true);
  const void* address = Address(x_);
  EXPECT_EQ(Execute(one, {{x_, x_}}, 1, &out).code(), absl::StatusCode::kInvalidArgument);
  PJRT_Buffer* y = NewBuffer(client_, devices_[0], {1, 1, 1, 1});
  EXPECT_EQ(Execute(one, {{x_, y}}, 1, &out), absl::ResourceExhaustedError("no queue"));
  EXPECT_FALSE(IsDeleted(x_));
  EXPECT_EQ(Address(x_), address);
  EXPECT_THAT(Values(x_), ElementsAre(1, 2, 3, 4));

  PJRT_Buffer* far_y = NewBuffer(client_, devices_[1], {1, 1, 1, 1});
  control_.FailNext(absl::ResourceExhaustedError("no queue"), /*at_launch=*/true, /*later=*/1);
  EXPECT_FALSE(Execute(two, {{x_, y}, {far_, far_y}}, 1, &out).ok());
  EXPECT_TRUE(IsDeleted(x_));  // donated on the first device, which runs
  EXPECT_FALSE(IsDeleted(far_));
  EXPECT_THAT(Values(far_), ElementsAre(5, 6, 7, 8));

  // If a part is refused, the arguments of the parts before it are given back.
  PJRT_Buffer* z = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
  ASSERT_TRUE(Delete(far_y).ok());
  EXPECT_FALSE(Execute(two, {{z, y}, {far_, far_y}}, 1, &out).ok());
  EXPECT_FALSE(IsDeleted(z));
  // It can still be donated, with its memory.
  ASSERT_TRUE(Execute(one, {{z, y}}, 1, &out).ok());
  EXPECT_THAT(control_.last_donated, ElementsAre(true, false));
  Destroy(out[0][0]);
  for (PJRT_Buffer* b : {y, far_y, z}) Destroy(b);
  Destroy(one);
  Destroy(two);
}

TEST_F(LaunchTest, CallsThatAreRefusedDoNotCountForTheRunsOfOtherDevices) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd, OptionsFor(2, 1));
  PJRT_Buffer* gone = NewBuffer(client_, devices_[1], {1, 2, 3, 4});
  ASSERT_TRUE(Delete(gone).ok());
  Rows out;
  auto run = [&](PJRT_Buffer* buffer, PJRT_Device* device) {
    const absl::Status status = Execute(add, {{buffer, buffer}}, 1, &out, nullptr, nullptr, device);
    if (status.ok()) Destroy(out[0][0]);
    return status.ok();
  };
  EXPECT_TRUE(run(x_, devices_[0]));
  EXPECT_FALSE(run(gone, devices_[1]));
  EXPECT_TRUE(run(far_, devices_[1]));
  EXPECT_TRUE(run(far_, devices_[1]));
  EXPECT_TRUE(run(x_, devices_[0]));
  ASSERT_EQ(control_.run_ids.size(), 4u);
  EXPECT_EQ(control_.run_ids[0], control_.run_ids[1]);
  EXPECT_EQ(control_.run_ids[2], control_.run_ids[3]);
  EXPECT_NE(control_.run_ids[0], control_.run_ids[2]);
  // Launches of other executables do not interfere either.
  PJRT_LoadedExecutable* other = MustCompile(client_, kAdd, OptionsFor(2, 1));
  ASSERT_TRUE(Execute(other, {{x_, x_}}, 1, &out, nullptr, nullptr, devices_[0]).ok());
  Destroy(out[0][0]);
  ASSERT_TRUE(Execute(other, {{x_, x_}, {far_, far_}}, 1, &out).ok());
  Destroy(out[0][0]);
  Destroy(out[1][0]);
  ASSERT_EQ(control_.run_ids.size(), 7u);
  EXPECT_EQ(std::count(control_.run_ids.begin(), control_.run_ids.end(), control_.run_ids[4]), 1);
  EXPECT_EQ(control_.run_ids[5], control_.run_ids[6]);
  EXPECT_EQ(std::count(control_.run_ids.begin(), control_.run_ids.end(), control_.run_ids[5]), 2);
  Destroy(gone);
  Destroy(add);
  Destroy(other);
}

// A call is interrupted between taking its first and its second argument. Another call donates the second one.
TEST_F(LaunchTest, OfTwoCallsThatDonateOneBufferOneHasIt) {
  PJRT_LoadedExecutable* both = MustCompile(client_, R"(
module @both {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %z: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %x, %z : tensor<4xf32>
    %1 = stablehlo.multiply %x, %z : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
})");
  PJRT_Buffer* contested = NewBuffer(client_, devices_[0], {1, 2, 3, 4});
  PJRT_Buffer* own = NewBuffer(client_, devices_[0], {1, 1, 1, 1});
  Rows inner, outer;
  absl::Status inside = absl::UnknownError("never ran");
  control_.when_donating = [&] { inside = Execute(both, {{own, contested}}, 2, &inner); };
  control_.interrupts_donation = true;
  const absl::Status outside = Execute(both, {{x_, contested}}, 2, &outer);
  EXPECT_TRUE(inside.ok()) << inside;
  EXPECT_EQ(outside.code(), absl::StatusCode::kInvalidArgument) << outside;
  EXPECT_THAT(std::string(outside.message()), HasSubstr("argument 1, buffer f32[4], has been deleted or donated"));
  EXPECT_THAT(Values(inner[0][0]), ElementsAre(2, 3, 4, 5));
  // The call that lost gives back the argument that it had taken.
  EXPECT_FALSE(IsDeleted(x_));
  EXPECT_THAT(Values(x_), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(IsDeleted(contested));
  for (PJRT_Buffer* b : {contested, own, inner[0][0], inner[0][1]}) Destroy(b);
  Destroy(both);
}

TEST_F(LaunchTest, OfTwoThreadsThatDonateOneBufferOneHasIt) {
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate);
  constexpr int kRounds = 200, kThreads = 2;
  std::vector<PJRT_Buffer*> given;
  for (int i = 0; i < kRounds; ++i) given.push_back(NewBuffer(client_, devices_[0], {1, 1, 1, 1}));
  std::vector<std::atomic<int>> won(kRounds);
  std::atomic<int> arrived{0};
  auto race = [&] {
    for (int round = 0; round < kRounds; ++round) {
      ++arrived;
      while (arrived < (round + 1) * kThreads) std::this_thread::yield();
      Rows out;
      const absl::Status status = Execute(donate, {{given[round], x_}}, 1, &out);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      ++won[round];
      Destroy(out[0][0]);
    }
  };
  std::thread other(race);
  race();
  other.join();
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(won[round], 1) << "round " << round;
    EXPECT_TRUE(IsDeleted(given[round]));
    Destroy(given[round]);
  }
  Destroy(donate);
}

TEST_F(LaunchTest, OutputListsThatAreMissingAreRefusedBeforeAnythingRuns) {
  PJRT_LoadedExecutable* donate = MustCompile(client_, kDonate, OptionsFor(2, 1));
  PJRT_Buffer* y = NewBuffer(client_, devices_[0], {1, 1, 1, 1});
  PJRT_Buffer* const row0[] = {x_, y};
  PJRT_Buffer* far_y = NewBuffer(client_, devices_[1], {1, 1, 1, 1});
  PJRT_Buffer* const row1[] = {far_, far_y};
  PJRT_Buffer* const* rows[] = {row0, row1};
  PJRT_Buffer* out = nullptr;
  PJRT_Buffer** outs[] = {&out, nullptr};
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  BP_ARGS(a, PJRT_LoadedExecutable_Execute);
  a.executable = donate;
  a.options = &options;
  a.argument_lists = rows;
  a.num_devices = 2;
  a.num_args = 2;
  a.output_lists = outs;
  EXPECT_EQ(BP_CALL(PJRT_LoadedExecutable_Execute, a).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(IsDeleted(x_));
  EXPECT_EQ(out, nullptr);
  Destroy(y);
  Destroy(far_y);
  Destroy(donate);
}

TEST_F(LaunchTest, OptionsOfALoadMustFitTheProgram) {
  BP_ARGS(t, PJRT_Client_TopologyDescription);
  t.client = client_;
  ASSERT_TRUE(BP_CALL(PJRT_Client_TopologyDescription, t).ok());
  std::string code = kAdd;
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = code.data();
  program.code_size = code.size();
  program.format = "mlir";
  program.format_size = 4;
  const struct { int replicas, partitions; } counts[] = {{1, 1}, {2, 1}, {1, 2}};
  for (const auto& compiled : counts) {
    const std::string options = OptionsFor(compiled.replicas, compiled.partitions);
    BP_ARGS(c, PJRT_Compile);
    c.topology = t.topology;
    c.program = &program;
    c.compile_options = options.data();
    c.compile_options_size = options.size();
    ASSERT_TRUE(BP_CALL(PJRT_Compile, c).ok());
    for (const auto& wanted : counts) {
      const bool fits = wanted.replicas == compiled.replicas && wanted.partitions == compiled.partitions;
      const std::string others = OptionsFor(wanted.replicas, wanted.partitions);
      BP_ARGS(l, PJRT_Client_Load);
      l.client = client_;
      l.executable = c.executable;
      l.compile_options = others.data();
      l.compile_options_size = others.size();
      const absl::Status status = BP_CALL(PJRT_Client_Load, l);
      EXPECT_EQ(status.code(), fits ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument) << status;
      if (status.ok()) {
        Destroy(l.loaded_executable);
      } else {
        EXPECT_THAT(std::string(status.message()), HasSubstr("compiled for"));
      }
    }
    BP_ARGS(s, PJRT_Executable_Serialize);
    s.executable = c.executable;
    ASSERT_TRUE(BP_CALL(PJRT_Executable_Serialize, s).ok());
    if (compiled.replicas == 1 && compiled.partitions == 1) {  // the fake backend does not store the counts
      const std::string others = OptionsFor(2, 1);
      BP_ARGS(r, PJRT_Executable_DeserializeAndLoad);
      r.client = client_;
      r.serialized_executable = s.serialized_bytes;
      r.serialized_executable_size = s.serialized_bytes_size;
      r.overridden_serialized_compile_options = others.data();
      r.overridden_serialized_compile_options_size = others.size();
      EXPECT_EQ(BP_CALL(PJRT_Executable_DeserializeAndLoad, r).code(), absl::StatusCode::kInvalidArgument);
    }
    s.serialized_executable_deleter(s.serialized_executable);
    BP_ARGS(d, PJRT_Executable_Destroy);
    d.executable = c.executable;
    ASSERT_TRUE(BP_CALL(PJRT_Executable_Destroy, d).ok());
  }
}

PJRT_Buffer* CopyToMemory(PJRT_Buffer* buffer, PJRT_Memory* memory) {
  BP_ARGS(c, PJRT_Buffer_CopyToMemory);
  c.buffer = buffer;
  c.dst_memory = memory;
  return BP_CALL(PJRT_Buffer_CopyToMemory, c).ok() ? c.dst_buffer : nullptr;
}

// Each copy waits for the one before it; the first waits for a program.
TEST_F(LaunchTest, AChainOfCopiesFitsOnTheStack) {
  constexpr int kCopies = 100000;
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  PJRT_Memory* memory = Memories(devices_[0])[0];
  control_.Hold();
  Rows out;
  ASSERT_TRUE(Execute(add, {{x_, x_}}, 1, &out).ok());
  PJRT_Buffer* last = out[0][0];
  for (int i = 0; i < kCopies; ++i) {
    PJRT_Buffer* next = CopyToMemory(last, memory);
    ASSERT_NE(next, nullptr);
    Destroy(last);
    last = next;
  }
  control_.ReleaseAll();
  EXPECT_THAT(Values(last), ElementsAre(2, 4, 6, 8));
  Destroy(last);
  Destroy(add);
}

TEST_F(LaunchTest, CopiesThatThrowBecomeErrors) {
  PJRT_Memory* memory = Memories(devices_[0])[0];
  PJRT_Buffer* large =
      NewBuffer(client_, devices_[0], std::vector<float>(100000, 1.0f));  // large enough that a thread copies it
  control_.copies_throw = true;
  for (PJRT_Buffer* source : {x_, large}) {
    PJRT_Buffer* copy = CopyToMemory(source, memory);
    ASSERT_NE(copy, nullptr);
    std::vector<float> values;
    EXPECT_EQ(Read(copy, &values), absl::ResourceExhaustedError("out of host memory"));
    Destroy(copy);
  }
  control_.copies_throw = false;
  PJRT_Buffer* copy = CopyToMemory(large, memory);
  EXPECT_EQ(Values(copy).size(), 100000u);
  Destroy(copy);
  Destroy(large);
}

TEST_F(LaunchTest, WorkThatIsLostEndsInAnError) {
  PJRT_LoadedExecutable* add = MustCompile(client_, kAdd);
  control_.Hold();
  Rows out, next;
  std::vector<PJRT_Event*> events;
  ASSERT_TRUE(Execute(add, {{x_, x_}}, 1, &out, nullptr, &events).ok());
  ASSERT_TRUE(Execute(add, {{out[0][0], x_}}, 1, &next).ok());
  control_.DropAll();
  EXPECT_EQ(AwaitAndDestroy(events[0]).code(), absl::StatusCode::kAborted);
  std::vector<float> values;
  EXPECT_EQ(Read(out[0][0], &values).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Read(next[0][0], &values).code(), absl::StatusCode::kAborted);
  Destroy(out[0][0]);
  Destroy(next[0][0]);
  Destroy(add);
}

struct Told {
  std::atomic<int> calls{0}, code{-1};
};

void Tell(PJRT_Error* error, void* arg) {
  auto* told = static_cast<Told*>(arg);
  told->code = static_cast<int>(Take(error).code());
  ++told->calls;
}

TEST_F(LaunchTest, EventsOfTheHostThatAreDestroyedUnsetTellTheirWaiters) {
  BP_ARGS(c, PJRT_Event_Create);
  ASSERT_TRUE(BP_CALL(PJRT_Event_Create, c).ok());
  Told told;
  BP_ARGS(o, PJRT_Event_OnReady);
  o.event = c.event;
  o.callback = &Tell;
  o.user_arg = &told;
  ASSERT_TRUE(BP_CALL(PJRT_Event_OnReady, o).ok());
  BP_ARGS(d, PJRT_Event_Destroy);
  d.event = c.event;
  ASSERT_TRUE(BP_CALL(PJRT_Event_Destroy, d).ok());
  EXPECT_EQ(told.calls, 1);
  EXPECT_EQ(told.code, static_cast<int>(absl::StatusCode::kAborted));
}

// The client waits for its worker in its destructor. On that worker it would wait for itself.
TEST_F(LaunchTest, AClientMayHaveItsLastReferenceOnItsOwnWorker) {
  for (int round = 0; round < 200; ++round) {
    control_.own_worker = true;
    PJRT_Client* client = NewClient(1);
    control_.own_worker = false;
    PJRT_Device* device = Devices(client)[0];
    PJRT_Buffer* large = NewBuffer(client, device, std::vector<float>(20000, 1.0f));
    PJRT_Buffer* copy = CopyToMemory(large, Memories(device)[0]);
    BP_ARGS(r, PJRT_Buffer_ReadyEvent);
    r.buffer = copy;
    ASSERT_TRUE(BP_CALL(PJRT_Buffer_ReadyEvent, r).ok());
    Destroy(large);
    Destroy(copy);
    Destroy(client);
    EXPECT_TRUE(AwaitAndDestroy(r.event).ok());
  }
  EXPECT_TRUE(Eventually([&] { return control_.clients == 1; })) << control_.clients;
}

}  // namespace
}  // namespace backplane::testing
