// What an executable of the engine tells of its parameters, and how its launches end when they cannot be made.
#include "sdk/engine/backend/executable.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/host_topology.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::engine {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<Executable> CompileText(const char* text, CompileOptions options = {}) {
  auto module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return nullptr;
  (*module)->config().num_replicas = options.num_replicas;
  (*module)->config().num_partitions = options.num_partitions;
  auto executable = CompileOnEngine(*std::move(module), options, nullptr);
  EXPECT_TRUE(executable.ok()) << executable.status();
  return executable.ok() ? *executable : nullptr;
}

// Arguments are the leaves of all parameters: the second leaf of the second parameter is the fourth argument.
TEST(EngineExecutableTest, DonationsOfTupleParametersNameLeaves) {
  auto executable = CompileText(R"(
HloModule m, input_output_alias={ {0}: (1, {1}, may-alias) }, buffer_donor={ (0, {0}) }

ENTRY e {
  t = (f32[4], f32[8]) parameter(0)
  u = (f32[4], f32[8]) parameter(1)
  a = f32[4] get-tuple-element(t), index=0
  b = f32[8] get-tuple-element(u), index=1
  c = f32[4] add(a, a)
  d = f32[8] add(b, b)
  ROOT r = (f32[8], f32[4]) tuple(d, c)
}
)");
  ASSERT_NE(executable, nullptr);
  std::vector<bool> donated;
  std::vector<int64_t> sizes;
  for (const ParameterInfo& p : executable->signature().parameters) {
    donated.push_back(p.donated);
    sizes.push_back(p.shape.num_elements());
  }
  EXPECT_THAT(sizes, ElementsAre(4, 8, 4, 8));
  EXPECT_THAT(donated, ElementsAre(true, false, false, true));

  // And run: what is donated is written, what is not stays as it was.
  EngineClient client(HostTopology("test", 1), std::chrono::seconds(10), 0);
  auto loaded = client.Load(executable, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExecuteRequest request;
  const int32_t device = 0;
  request.device_assignment = absl::MakeConstSpan(&device, 1);
  std::vector<float*> values;
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto storage = client.Allocate(0, static_cast<size_t>(sizes[i]) * sizeof(float));
    ASSERT_TRUE(storage.ok());
    values.push_back(static_cast<float*>((*storage)->data()));
    for (int64_t k = 0; k < sizes[i]; ++k) values.back()[k] = static_cast<float>(10 * i + 1);
    request.arguments.push_back({executable->signature().parameters[i].shape, 0, *storage, Event()});
    request.donated.push_back(donated[i]);
  }
  const std::vector<DeviceArray> keep = request.arguments;
  auto result = (*loaded)->Execute(std::move(request));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->done.Await().ok());
  EXPECT_EQ(static_cast<const float*>(result->outputs[0].storage->data())[7], 62);
  EXPECT_EQ(static_cast<const float*>(result->outputs[1].storage->data())[3], 2);
  EXPECT_EQ(values[1][7], 11);
  EXPECT_EQ(values[2][3], 21);
}

// The host keeps a donated argument that no output can use: none is of its size, or those that are have memory already.
TEST(EngineExecutableTest, DonorsWithoutAnOutputStayTheHosts) {
  auto executable = CompileText(R"(
HloModule m, buffer_donor={ (0, {}), (1, {}), (2, {}) }

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[8] parameter(1)
  z = f32[8] parameter(2)
  a = f32[4,4] broadcast(x), dimensions={0}
  b = f32[8] add(y, z)
  ROOT r = (f32[4,4], f32[8]) tuple(a, b)
}
)");
  ASSERT_NE(executable, nullptr);
  std::vector<bool> donated;
  for (const ParameterInfo& p : executable->signature().parameters) donated.push_back(p.donated);
  EXPECT_THAT(donated, ElementsAre(false, true, false));
}

// A layout may state another size of elements than the program writes: the outputs have memory for what it writes.
TEST(EngineExecutableTest, OutputsHaveRoomWhateverElementSizeTheLayoutStates) {
  for (const char* size : {"1", "4", "5000"}) {
    auto executable =
        CompileText(absl::StrCat("HloModule m, entry_computation_layout={(s4[64,32]{1,0})->s4[64,32]{0,1:E(", size,
                                 ")}}\n\nENTRY e {\n  x = s4[64,32] parameter(0)\n  ROOT r = s4[64,32] add(x, x)\n}\n")
                        .c_str());
    ASSERT_NE(executable, nullptr);
    EngineClient client(HostTopology("test", 1), std::chrono::seconds(10), 0);
    auto loaded = client.Load(executable, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ExecuteRequest request;
    const int32_t device = 0;
    request.device_assignment = absl::MakeConstSpan(&device, 1);
    auto storage = client.Allocate(0, 64 * 32);
    ASSERT_TRUE(storage.ok());
    std::memset((*storage)->data(), 1, 64 * 32);
    request.arguments.push_back({executable->signature().parameters[0].shape, 0, *storage, Event()});
    request.donated.push_back(false);
    auto result = (*loaded)->Execute(std::move(request));
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->done.Await().ok());
    ASSERT_GE(result->outputs[0].storage->size(), size_t{64 * 32}) << size;
    EXPECT_EQ(static_cast<const int8_t*>(result->outputs[0].storage->data())[64 * 32 - 1], 2);
  }
}

// Half of the smallest normal number is zero in a program's kernels, on all threads that run them, unless subnormal
// numbers are kept. Operands are read as they are, and the calling thread computes as before.
TEST(EngineExecutableTest, SubnormalResultsAreZeroUnlessKept) {
  constexpr int64_t kCount = 1 << 21;  // several threads work on it
  const float least = std::numeric_limits<float>::min(), tiny = std::numeric_limits<float>::denorm_min();
  auto executable =
      CompileText(absl::StrCat("HloModule m\n\nENTRY e {\n  x = f32[", kCount,
                               "] parameter(0)\n  h = f32[] constant(0.5)\n  b = f32[", kCount,
                               "] broadcast(h), dimensions={}\n  p = f32[", kCount, "] multiply(x, b)\n  c = f32[",
                               kCount, "] ceil(x)\n  ROOT r = (f32[", kCount, "], f32[", kCount, "]) tuple(p, c)\n}\n")
                      .c_str());
  ASSERT_NE(executable, nullptr);
  for (Subnormals mode : {Subnormals::kFlushResults, Subnormals::kKeep}) {
    EngineClient client(HostTopology("test", 1), std::chrono::seconds(10), 0, mode);
    auto loaded = client.Load(executable, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    auto storage = client.Allocate(0, kCount * sizeof(float));
    ASSERT_TRUE(storage.ok());
    float* x = static_cast<float*>((*storage)->data());
    for (int64_t i = 0; i < kCount; ++i) x[i] = i % 2 == 0 ? least : tiny;
    ExecuteRequest request;
    const int32_t device = 0;
    request.device_assignment = absl::MakeConstSpan(&device, 1);
    request.arguments.push_back({executable->signature().parameters[0].shape, 0, *storage, Event()});
    request.donated.push_back(false);
    auto result = (*loaded)->Execute(std::move(request));
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->done.Await().ok());
    const float* half = static_cast<const float*>(result->outputs[0].storage->data());
    const float* up = static_cast<const float*>(result->outputs[1].storage->data());
    int64_t zeros = 0, ones = 0;
    for (int64_t i = 0; i < kCount; i += 2) zeros += half[i] == 0;
    for (int64_t i = 0; i < kCount; ++i) ones += up[i] == 1;
    EXPECT_EQ(zeros, mode == Subnormals::kKeep ? 0 : kCount / 2);
    EXPECT_EQ(ones, kCount);
    volatile float here = least;
    EXPECT_GT(here * 0.5f, 0);
  }
}

constexpr char kSum[] = R"(
HloModule m, replica_count=2

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}

ENTRY e {
  x = f32[4] parameter(0)
  ROOT s = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add
}
)";

class SumLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    CompileOptions options;
    options.num_replicas = 2;
    auto executable = CompileText(kSum, options);
    ASSERT_NE(executable, nullptr);
    auto loaded = client_.Load(executable, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded_ = *std::move(loaded);
    shape_ = executable->signature().parameters[0].shape;
  }
  ExecuteRequest Request(int64_t run_id, int32_t replica) {
    ExecuteRequest request;
    request.device = replica;
    request.replica = replica;
    request.run_id = run_id;
    request.device_assignment = devices_;
    auto storage = client_.Allocate(0, 16);
    EXPECT_TRUE(storage.ok());
    std::memset((*storage)->data(), 0, 16);
    request.arguments = {{shape_, replica, *storage, Event()}};
    request.donated = {false};
    return request;
  }
  // Devices wait for one another a minute; what is abandoned must not.
  EngineClient client_{HostTopology("test", 2), std::chrono::seconds(60), 0};
  const int32_t devices_[2] = {0, 1};
  std::unique_ptr<LoadedExecutable> loaded_;
  Shape shape_;
};

TEST_F(SumLaunch, AbandonedDevicesDoNotWait) {
  const auto start = std::chrono::steady_clock::now();
  auto first = loaded_->Execute(Request(1001, 0));
  ASSERT_TRUE(first.ok()) << first.status();
  loaded_->Abandon(1001, absl::ResourceExhaustedError("no room on the other one"));
  const absl::Status end = first->done.Await();
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted) << end;
  EXPECT_THAT(std::string(end.message()), ::testing::HasSubstr("no room on the other one"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(Runtime::Get().launches.size(), 0u);
  // The next run is whole.
  auto a = loaded_->Execute(Request(1002, 0)), b = loaded_->Execute(Request(1002, 1));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_TRUE(a->done.Await().ok());
  EXPECT_TRUE(b->done.Await().ok());
}

TEST_F(SumLaunch, ADeviceThatTheProgramDoesNotHaveIsAnError) {
  auto first = loaded_->Execute(Request(1003, 0));
  ASSERT_TRUE(first.ok());
  ExecuteRequest beyond = Request(1003, 1);
  beyond.replica = 2;
  auto second = loaded_->Execute(std::move(beyond));
  EXPECT_FALSE(first->done.Await().ok());
  EXPECT_FALSE(second.ok() && second->done.Await().ok());
}

// On a worker of the pool an exception would end the process: whoever asked for the work gets it.
TEST(ThreadPoolTest, WhatAChunkThrowsReachesTheCaller) {
  ThreadPool::Options options;
  options.num_threads = 4;
  ThreadPool pool(options);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> begun{0};
    EXPECT_THROW(pool.ParallelFor(64,
                                  [&](int64_t chunk, int) {
                                    ++begun;
                                    if (chunk % 8 == 3) throw std::bad_alloc();
                                  }),
                 std::bad_alloc);
    EXPECT_LE(begun, 64);
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(64, [&](int64_t chunk, int) { sum += chunk; });
    EXPECT_EQ(sum, 64 * 63 / 2);
  }
}

// Weights that are an argument are packed once, and packed again after a program has overwritten them.
TEST(EngineExecutableTest, PackedWeightsFollowTheirContents) {
  auto convolution = CompileText(R"(
HloModule m

ENTRY e {
  x = f32[1,16,16,32] parameter(0)
  w = f32[3,3,32,32] parameter(1)
  ROOT y = f32[1,16,16,32] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}
)");
  auto increment = CompileText(R"(
HloModule m, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY e {
  w = f32[3,3,32,32] parameter(0)
  ROOT y = f32[3,3,32,32] add(w, w)
}
)");
  ASSERT_NE(convolution, nullptr);
  ASSERT_NE(increment, nullptr);
  EngineClient client(HostTopology("test", 1), std::chrono::seconds(10), 0);
  auto convolve = client.Load(convolution, {});
  auto twice = client.Load(increment, {});
  ASSERT_TRUE(convolve.ok());
  ASSERT_TRUE(twice.ok());
  const int32_t device = 0;
  auto put = [&](std::vector<int64_t> dims, float value) {
    DeviceArray array;
    array.shape = Shape(PrimitiveType::kF32, dims);
    array.shape.set_row_major();
    array.storage = *client.Allocate(0, static_cast<size_t>(array.shape.byte_size()));
    for (int64_t i = 0; i < array.shape.num_elements(); ++i) static_cast<float*>(array.storage->data())[i] = value;
    return array;
  };
  auto run = [&](LoadedExecutable& program, std::vector<DeviceArray> arguments, bool donate) {
    ExecuteRequest request;
    request.device_assignment = absl::MakeConstSpan(&device, 1);
    request.donated.assign(arguments.size(), donate);
    request.arguments = std::move(arguments);
    auto result = program.Execute(std::move(request));
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->done.Await().ok());
    return result->outputs[0];
  };
  const DeviceArray x = put({1, 16, 16, 32}, 1);
  DeviceArray w = put({3, 3, 32, 32}, 0.5f);
  // In the middle of the image all nine positions count.
  auto middle = [&] {
    return static_cast<const float*>(run(**convolve, {x, w}, false).storage->data())[(8 * 16 + 8) * 32];
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(middle(), 9 * 32 * 0.5f);
  const int64_t kept = client.packed_weights()->bytes();
  // Every machine for which oneDNN has a kernel.
  if (absl::StrContains(convolution->compile_log(), "onednn_forward: f32")) {
    EXPECT_GE(kept, 3 * 3 * 32 * 32 * 4);
  }
  void* const memory = w.storage->data();
  w = run(**twice, {w}, true);
  EXPECT_EQ(w.storage->data(), memory);
  EXPECT_EQ(client.packed_weights()->bytes(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(middle(), 9 * 32 * 1.0f);
  EXPECT_EQ(client.packed_weights()->bytes(), kept);
  // A host that has the address may write at any time.
  w.storage->BeginHostAccess();
  EXPECT_EQ(client.packed_weights()->bytes(), 0);
  for (int i = 0; i < 3; ++i) {
    static_cast<float*>(memory)[4 * 32 * 32] += 1;  // for the first output of the middle position
    EXPECT_EQ(middle(), 9 * 32 * 1.0f + static_cast<float>(i + 1));
  }
  w.storage->EndHostAccess();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(middle(), 9 * 32 * 1.0f + 3);
  w = DeviceArray();
  EXPECT_EQ(client.packed_weights()->bytes(), 0);
}

}  // namespace
}  // namespace backplane::engine
