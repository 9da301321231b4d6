// A client's memory limit through the engine, for all that counts against it, and the threads that programs take.
#include "sdk/engine/backend/client.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/custom_call.h"
#include "sdk/backend/host_topology.h"
#include "sdk/engine/backend/pipeline.h"

namespace backplane::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSide = 320, kMatrixBytes = kSide * kSide * 4;

// The argument and the result are a matrix each; x * x lies in temporary memory.
std::string Cube(int64_t side) {
  return absl::StrReplaceAll(R"(HloModule cube
ENTRY e {
  x = f32[SIDE,SIDE] parameter(0)
  y = f32[SIDE,SIDE] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[SIDE,SIDE] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                             {{"SIDE", absl::StrCat(side)}});
}

constexpr char kAdd[] = R"(HloModule add
ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
})";

std::shared_ptr<Executable> CompileText(const std::string& text, CustomCallRegistry* custom_calls = nullptr) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return nullptr;
  absl::StatusOr<std::shared_ptr<Executable>> made =
      CompileOnEngine(*std::move(module), CompileOptions(), custom_calls);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

class Limited {
 public:
  explicit Limited(int64_t limit, int devices = 1)
      : client_(HostTopology("test", devices), std::chrono::seconds(60), limit) {}
  EngineClient& client() { return client_; }
  int64_t InUse() { return client_.GetMemoryStats(0)->bytes_in_use; }

  absl::StatusOr<DeviceArray> Put(std::vector<int64_t> dims, float value) {
    DeviceArray array;
    array.shape = Shape(PrimitiveType::kF32, dims);
    array.shape.set_row_major();
    auto storage = client_.Allocate(0, static_cast<size_t>(array.shape.byte_size()));
    if (!storage.ok()) return storage.status();
    array.storage = *std::move(storage);
    for (int64_t i = 0; i < array.shape.num_elements(); ++i) static_cast<float*>(array.storage->data())[i] = value;
    return array;
  }

  absl::StatusOr<ExecuteResult> Start(LoadedExecutable& program, const DeviceArray& argument) {
    static constexpr int32_t kDevice = 0;
    ExecuteRequest request;
    request.device_assignment = absl::MakeConstSpan(&kDevice, 1);
    request.arguments = {argument};
    request.donated = {false};
    return program.Execute(std::move(request));
  }

  // The first element of the result.
  absl::StatusOr<float> Run(LoadedExecutable& program, const DeviceArray& argument) {
    absl::StatusOr<ExecuteResult> result = Start(program, argument);
    if (!result.ok()) return result.status();
    if (absl::Status s = result->done.Await(); !s.ok()) return s;
    return *static_cast<const float*>(result->outputs[0].storage->data());
  }

  void Works() {
    auto add = client_.Load(CompileText(kAdd), {});
    ASSERT_TRUE(add.ok()) << add.status();
    auto x = Put({4}, 2);
    ASSERT_TRUE(x.ok()) << x.status();
    auto y = Run(**add, *x);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(*y, 4);
  }

 private:
  EngineClient client_;
};

TEST(EngineClientTest, BuffersCountAndAbsurdSizesAreRefused) {
  Limited limited(1 << 20);
  auto most = limited.client().Allocate(0, 1000000);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(limited.InUse(), 1000000);
  EXPECT_EQ(limited.client().Allocate(0, 100000).status().message(),
            "cpu: no memory for 100000 bytes: 1000000 are in use, the client's limit is 1048576");
  EXPECT_EQ(limited.client().Allocate(0, SIZE_MAX).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(limited.client().GetMemoryStats(0)->bytes_limit, 1 << 20);
  most->reset();
  EXPECT_EQ(limited.InUse(), 0);
  limited.Works();
}

TEST(EngineClientTest, ResultsCount) {
  Limited limited(kMatrixBytes + 5000);
  auto cube = limited.client().Load(CompileText(Cube(kSide)), {});
  ASSERT_TRUE(cube.ok()) << cube.status();
  auto x = limited.Put({kSide, kSide}, 1.0f / kSide);
  ASSERT_TRUE(x.ok()) << x.status();
  const int64_t before = limited.InUse();
  auto y = limited.Run(**cube, *x);
  EXPECT_EQ(y.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(limited.InUse(), before);
  limited.Works();
}

TEST(EngineClientTest, TemporaryMemoryCounts) {
  Limited limited(2 * kMatrixBytes + 5000);
  auto cube = limited.client().Load(CompileText(Cube(kSide)), {});
  ASSERT_TRUE(cube.ok()) << cube.status();
  auto x = limited.Put({kSide, kSide}, 1.0f / kSide);
  ASSERT_TRUE(x.ok()) << x.status();
  const int64_t before = limited.InUse();
  for (int i = 0; i < 3; ++i) {
    auto y = limited.Run(**cube, *x);
    EXPECT_EQ(y.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(y.status().message()), HasSubstr("temporary memory: no memory for"));
    Runtime::Get().WaitUntilIdle(60000);
    EXPECT_EQ(limited.InUse(), before);
    limited.Works();
  }
}

TEST(EngineClientTest, ConstantsCountWhileAProgramIsLoaded) {
  std::string values;
  for (int i = 0; i < 4096; ++i) absl::StrAppend(&values, i == 0 ? "" : ", ", i);
  const std::shared_ptr<Executable> table =
      CompileText(absl::StrCat("HloModule table\nENTRY e {\n  x = f32[4096] parameter(0)\n  c = f32[4096] constant({",
                               values, "})\n  ROOT y = f32[4096] add(x, c)\n}\n"));
  ASSERT_NE(table, nullptr);
  Limited small(10000), large(100000);
  auto refused = small.client().Load(table, {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("constants: no memory for 16384 bytes"));
  EXPECT_EQ(small.InUse(), 0);
  small.Works();
  {
    auto loaded = large.client().Load(table, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(large.InUse(), 16384);
  }
  EXPECT_EQ(large.InUse(), 0);
}

// Room for three programs' results and temporary memory, and sixty dispatched at once: all run.
TEST(EngineClientTest, DispatchesBeyondTheLimitWaitForThoseThatRun) {
  Limited limited(8 * kMatrixBytes);
  auto cube = limited.client().Load(CompileText(Cube(kSide)), {});
  ASSERT_TRUE(cube.ok()) << cube.status();
  auto x = limited.Put({kSide, kSide}, 1.0f / kSide);
  ASSERT_TRUE(x.ok()) << x.status();
  std::vector<Event> done;
  for (int i = 0; i < 60; ++i) {
    auto result = limited.Start(**cube, *x);  // nobody keeps the result
    ASSERT_TRUE(result.ok()) << result.status();
    done.push_back(result->done);
  }
  for (const Event& event : done) EXPECT_TRUE(event.Await().ok()) << event.status();
  EXPECT_LE(limited.client().GetMemoryStats(0)->peak_bytes_in_use, 8 * kMatrixBytes);
}

// A registry of calls that remember the thread that called them last and do nothing else.
class ThreadRecorder : public CustomCallRegistry {
 public:
  bool Has(const std::string&) const override { return true; }
  absl::StatusOr<std::unique_ptr<CustomCallSite>> Instantiate(const CustomCallSpec&) override {
    return std::make_unique<Site>(this);
  }
  bool CalledByThisThread() const { return thread_ == std::this_thread::get_id(); }

 private:
  struct Site : CustomCallSite {
    explicit Site(ThreadRecorder* to) : recorder(to) {}
    absl::StatusOr<Event> Call(const CustomCallFrame& frame) override {
      recorder->thread_ = std::this_thread::get_id();
      *static_cast<float*>(frame.results[0].data) = 7;
      return Event();
    }
    ThreadRecorder* recorder;
  };
  std::thread::id thread_;
};

// A call of the host in a branch that is rarely taken runs in a thread of its own if it ran a short time ago, and else
// does not cost the hand-over to that thread. LAPACK waits for nothing.
TEST(EngineClientTest, ProgramsThatCallTheHostInTheThreadOfTheCaller) {
  const std::string text = R"(HloModule calls
never {
  ROOT x = f32[4] parameter(0)
}
call {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="TARGET"
}
ENTRY e {
  x = f32[4] parameter(0)
  first = f32[1] slice(x), slice={[0:1]}
  scalar = f32[] reshape(first)
  zero = f32[] constant(0)
  positive = pred[] compare(scalar, zero), direction=GT
  ROOT y = f32[4] conditional(positive, x, x), true_computation=call, false_computation=never
})";
  Limited limited(0);
  ThreadRecorder calls;
  auto program = limited.client().Load(CompileText(absl::StrReplaceAll(text, {{"TARGET", "host"}}), &calls), {});
  ASSERT_TRUE(program.ok()) << program.status();
  auto taken = limited.Put({4}, 1), not_taken = limited.Put({4}, -1);
  ASSERT_TRUE(taken.ok() && not_taken.ok());
  auto run = [&](const DeviceArray& argument) {
    absl::StatusOr<float> result = limited.Run(**program, argument);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(0);
  };
  bool in_caller = false;
  for (int i = 0; i < 50 && !in_caller; ++i) {  // a run that another process interrupts counts as a long one
    for (int k = 0; k < 20; ++k) EXPECT_EQ(run(*not_taken), -1);
    EXPECT_EQ(run(*taken), 7);
    in_caller = calls.CalledByThisThread();
    EXPECT_EQ(run(*taken), 7);
    EXPECT_FALSE(calls.CalledByThisThread());
  }
  EXPECT_TRUE(in_caller);
  // With another device its call might wait for that of this one, which the caller has not dispatched yet.
  Limited two(0, 2);
  auto on_two = two.client().Load(CompileText(absl::StrReplaceAll(text, {{"TARGET", "host"}}), &calls), {});
  ASSERT_TRUE(on_two.ok()) << on_two.status();
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 20; ++k) EXPECT_EQ(two.Run(**on_two, *not_taken).value_or(0), -1);
    EXPECT_EQ(two.Run(**on_two, *taken).value_or(0), 7);
    EXPECT_FALSE(calls.CalledByThisThread());
  }
  program = limited.client().Load(CompileText(absl::StrReplaceAll(text, {{"TARGET", "lapack_s"}}), &calls), {});
  ASSERT_TRUE(program.ok()) << program.status();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run(*taken), 7);
    EXPECT_TRUE(calls.CalledByThisThread());
  }
}

// Devices that meet hold their temporary memory together: where there is no room for all of a launch, none may wait for
// ever in the meeting.
TEST(EngineClientTest, LaunchesOfTwoDevicesNearTheLimit) {
  const std::string text = absl::StrReplaceAll(R"(HloModule m, replica_count=2
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[SIDE,SIDE] parameter(0)
  y = f32[SIDE,SIDE] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[SIDE,SIDE] all-reduce(y), replica_groups={{0,1}}, to_apply=sum
  z = f32[SIDE,SIDE] dot(r, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  ROOT s = f32[SIDE] reduce(z, zero), dimensions={1}, to_apply=sum
})",
                                               {{"SIDE", absl::StrCat(kSide)}});
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  CompileOptions options;
  options.num_replicas = 2;
  auto executable = CompileOnEngine(*std::move(module), options, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  for (const int64_t matrices : {2, 3, 4, 5, 6, 8, 12, 40}) {
    SCOPED_TRACE(matrices);
    EngineClient client(HostTopology("test", 2), std::chrono::seconds(60), matrices * kMatrixBytes);
    auto loaded = client.Load(*executable, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    static constexpr int32_t kDevices[] = {0, 1};
    DeviceArray x;
    x.shape = Shape(PrimitiveType::kF32, {kSide, kSide});
    x.shape.set_row_major();
    auto storage = client.Allocate(0, static_cast<size_t>(kMatrixBytes));
    ASSERT_TRUE(storage.ok()) << storage.status();
    x.storage = *std::move(storage);
    std::fill_n(static_cast<float*>(x.storage->data()), kSide * kSide, 1.0f / kSide);
    int whole = 0, refused = 0;
    std::vector<std::vector<ExecuteResult>> runs;
    for (int run = 0; run < 12; ++run) {
      std::vector<ExecuteResult>& results = runs.emplace_back();
      for (int32_t d = 0; d < 2; ++d) {
        ExecuteRequest request;
        request.device = request.replica = d;
        request.run_id = 7000 + 100 * matrices + run;
        request.device_assignment = kDevices;
        request.arguments = {x};
        request.donated = {false};
        absl::StatusOr<ExecuteResult> result = (*loaded)->Execute(std::move(request));
        if (result.ok()) {
          results.push_back(*std::move(result));
          continue;
        }
        EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
        (*loaded)->Abandon(7000 + 100 * matrices + run, result.status());
        break;
      }
    }
    for (const auto& results : runs) {
      int ended_well = 0;
      for (const ExecuteResult& result : results) {
        const absl::Status end = result.done.Await();
        ended_well += end.ok();
        if (!end.ok()) {
          EXPECT_TRUE(absl::IsResourceExhausted(end) || absl::IsAborted(end)) << end;
        }
        if (end.ok()) {
          EXPECT_NEAR(*static_cast<const float*>(result.outputs[0].storage->data()), 2.0f, 1e-4);
        }
      }
      if (results.size() == 2 && ended_well == 2) ++whole;
      if (ended_well == 0) ++refused;
    }
    EXPECT_EQ(whole + refused, 12);  // never one device without the other
    if (matrices >= 40) {            // room for all that may compute at once
      EXPECT_EQ(whole, 12);
    }
    EXPECT_LE(client.GetMemoryStats(0)->peak_bytes_in_use, matrices * kMatrixBytes);
  }
  EXPECT_EQ(Runtime::Get().launches.size(), 0u);
}

TEST(EngineClientTest, ManyDispatchesTakeFewThreads) {
  Limited limited(0);
  auto cube = limited.client().Load(CompileText(Cube(kSide)), {});
  ASSERT_TRUE(cube.ok()) << cube.status();
  auto x = limited.Put({kSide, kSide}, 1.0f / kSide);
  ASSERT_TRUE(x.ok()) << x.status();
  std::vector<ExecuteResult> results;
  for (int i = 0; i < 200; ++i) results.push_back(*limited.Start(**cube, *x));
  for (const ExecuteResult& result : results) {
    ASSERT_TRUE(result.done.Await().ok());
    EXPECT_NEAR(*static_cast<const float*>(result.outputs[0].storage->data()), 1.0f / kSide, 1e-6);
  }
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_LE(Runtime::Get().workers.GetStatistics().peak_threads, std::max(17, 5 * cpus));
}

}  // namespace
}  // namespace backplane::engine
