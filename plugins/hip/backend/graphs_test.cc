// Programs whose kernels and copies are started as graphs of the emulated runtime. Their results are those of single
// starts, also if addresses change, if launches overlap, and if the runtime refuses a call. The emulated runtime
// reports accesses that nothing orders, and graphs that are left.
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/graph_queue.h"
#include "plugins/hip/backend/testing/client_testing.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;

// f32[64,64], f32[64,64]: five products, which move the columns of x by five places if p is ColumnShift(). If x is not
// donated, the program begins with a copy of it.
constexpr char kMoveFive[] = R"(HloModule move_five, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[64,64] parameter(0)
  p = f32[64,64] parameter(1)
  a = f32[64,64] dot(x, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,64] dot(b, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,64] dot(c, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] dot(d, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
constexpr int kKernels = 5;

std::vector<float> MovedBy(const std::vector<float>& x, size_t places) {
  std::vector<float> r(x.size());
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < 64; ++j) r[i * 64 + (j + places) % 64] = x[i * 64 + j];
  }
  return r;
}

class GraphsTest : public ClientTest, public ::testing::WithParamInterface<size_t> {
 protected:
  void OpenWithGraphs(const Variables& variables = {}, const std::string& target = "host") {
    graph_mode_ = GraphMode::kOn;
    Open(variables, GetParam(), 0, target);
  }
  int64_t Launches() { return Calls("hipGraphLaunch"); }
  int64_t Made() { return Calls("hipGraphInstantiate"); }
  int64_t Changed() { return Calls("hipGraphExecKernelNodeSetParams"); }
  int64_t ChangedCopies() { return Calls("hipGraphExecMemcpyNodeSetParams1D"); }
  int64_t Singles() { return Calls("hipModuleLaunchKernel") + Calls("hipMemcpyDtoDAsync"); }
};
INSTANTIATE_TEST_SUITE_P(Pool, GraphsTest, ::testing::Values(0, 1 << 20),
                         [](const auto& info) { return absl::StrCat("slabs", info.param); });

// A donated array stays where it is, so all launches have the same addresses.
TEST_P(GraphsTest, LaunchesOfTheSameAddressesUseOneGraph) {
  OpenWithGraphs();
  const auto move = Load(kMoveFive);
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  if (GetParam() == 0) {
    // Temporaries are allocations of their own here. The runtime gives the same memory again when it is free.
    for (int i = 0; i < 20; ++i) {
      x = Run(*move, {std::move(x), p}, 0, true);
      ASSERT_TRUE(x.ready.Await().ok());
    }
    EXPECT_LE(Made(), 4);
  } else {
    for (int i = 0; i < 20; ++i) x = Run(*move, {std::move(x), p}, 0, true);
    EXPECT_EQ(Made(), 1);
    EXPECT_EQ(Changed(), 0);
  }
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 100));
  EXPECT_EQ(Launches(), 20);
  EXPECT_EQ(Singles(), 0);
}

TEST_P(GraphsTest, NodesGetNewAddresses) {
  OpenWithGraphs();
  const auto move = Load(kMoveFive);
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  std::vector<DeviceArray> kept;
  DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  for (int i = 0; i < 12; ++i) {
    kept.push_back(x);
    x = Run(*move, {x, p});
    ASSERT_TRUE(x.ready.Await().ok());
  }
  EXPECT_EQ(Launches(), 12);
  EXPECT_EQ(Singles(), 0);
  EXPECT_EQ(Made(), 4);  // the most that a sequence has
  EXPECT_GE(Changed(), 8);
  EXPECT_GE(ChangedCopies(), 8);
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 60));
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(Get(kept[i]), MovedBy(Numbers(64 * 64), 5 * i)) << i;
}

// A graph whose launch the device has not finished is not changed: the others are used, then single starts.
TEST_P(GraphsTest, LaunchesThatOverlapHaveGraphsOfTheirOwn) {
  OpenWithGraphs({{"HIPEMU_LATENCY_US", "10000"}});
  const auto move = Load(kMoveFive);
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  std::vector<DeviceArray> results = {Put(Numbers(64 * 64), {64, 64})};
  ASSERT_TRUE(results[0].ready.Await().ok());
  for (int i = 0; i < 12; ++i) results.push_back(Run(*move, {results.back(), p}));
  EXPECT_FALSE(results.back().ready.IsReady());
  EXPECT_EQ(Made(), 4);
  EXPECT_GE(Launches(), 4);
  EXPECT_GT(Singles(), 0);
  EXPECT_EQ(Singles(), (12 - Launches()) * (kKernels + 1));
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(Get(results[i]), MovedBy(Numbers(64 * 64), 5 * i)) << i;
  // Now they are free again.
  const int64_t before = Launches();
  ASSERT_TRUE(Run(*move, {results[0], p}).ready.Await().ok());
  EXPECT_EQ(Launches(), before + 1);
}

// Launches with streams of their own: the host decides the loops. The body has two kernels.
TEST_P(GraphsTest, LoopsOfTheHostRunAtTheSameTime) {
  OpenWithGraphs({{"HIPEMU_LATENCY_US", "200"}});
  const auto loop = Load(R"(HloModule m
more {
  s = (f32[64,64], f32[64,64]) parameter(0)
  x = f32[64,64] get-tuple-element(s), index=0
  slice = f32[1,1] slice(x), slice={[0:1],[0:1]}
  first = f32[] reshape(slice)
  limit = f32[] constant(5)
  ROOT r = pred[] compare(first, limit), direction=NE
}
step {
  s = (f32[64,64], f32[64,64]) parameter(0)
  x = f32[64,64] get-tuple-element(s), index=0
  p = f32[64,64] get-tuple-element(s), index=1
  a = f32[64,64] dot(x, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,64], f32[64,64]) tuple(b, p)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  p = f32[64,64] parameter(1)
  s = (f32[64,64], f32[64,64]) tuple(x, p)
  w = (f32[64,64], f32[64,64]) while(s), condition=more, body=step
  ROOT r = f32[64,64] get-tuple-element(w), index=0
})");
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  std::vector<DeviceArray> results;
  std::vector<std::vector<float>> want;
  for (size_t k = 0; k < 6; ++k) {
    std::vector<float> x(64 * 64, static_cast<float>(10 + k));
    x[64 - 2 * (k + 1)] = 5;  // after k + 1 iterations it is the first
    results.push_back(Run(*loop, {Put(x, {64, 64}), p}));
    want.push_back(MovedBy(x, 2 * (k + 1)));
  }
  for (size_t k = 0; k < results.size(); ++k) EXPECT_EQ(Get(results[k]), want[k]) << k;
  EXPECT_GT(Launches(), 0);
}

TEST_P(GraphsTest, MachineCode) {
  OpenWithGraphs({}, "gfx942");
  const auto move = Load(kMoveFive);
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  for (int i = 0; i < 3; ++i) x = Run(*move, {x, p});
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 15));
  EXPECT_EQ(Launches(), 3);
}

TEST_P(GraphsTest, ProgramsAreUnloadedWithTheirGraphs) {
  OpenWithGraphs({{"HIPEMU_LATENCY_US", "1000"}});
  const DeviceArray p = Put(ColumnShift(), {64, 64});
  DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  for (int i = 0; i < 4; ++i) x = Run(*Load(kMoveFive), {x, p});  // unloaded while the device runs it
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 20));
  EXPECT_EQ(Launches(), 4);
  EXPECT_EQ(Calls("hipGraphExecDestroy"), Made());
  EXPECT_EQ(devices_->graph_nodes(0).load(), 0);
}

// A graph that cannot be made is no error: memory of the runtime has run out, say. Launching it is one.
TEST_P(GraphsTest, EachCallMayFail) {
  const std::vector<float> numbers = Numbers(64 * 64);
  const auto run = [&]() -> absl::Status {
    const auto move = Load(kMoveFive);
    std::vector<Event> ended;
    absl::Status status = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(DeviceArray p, TryRoom({64, 64}, 0));
      p.ready = Fill(p, ColumnShift(), HostUse::kDuringCall).done;
      ASSIGN_OR_RETURN(DeviceArray x, TryRoom({64, 64}, 0));
      x.ready = Fill(x, numbers, HostUse::kDuringCall).done;
      ended = {p.ready, x.ready};
      std::vector<DeviceArray> kept;
      for (int i = 0; i < 6; ++i) {
        kept.push_back(x);
        ASSIGN_OR_RETURN(ExecuteResult result, TryRun(*move, {x, p}));
        ended.push_back(result.done);
        x = result.outputs[0];
        if (i % 2 == 1) RETURN_IF_ERROR(result.done.Await());
      }
      std::vector<float> values;
      RETURN_IF_ERROR(Fetch(x, &values).Await());
      EXPECT_EQ(values, MovedBy(numbers, 30));
      return absl::OkStatus();
    }();
    for (const Event& end : ended) {
      if (absl::Status s = end.Await(); status.ok()) status = std::move(s);
    }
    return status;
  };
  for (const char* function :
       {"hipGraphCreate", "hipGraphAddKernelNode", "hipGraphAddMemcpyNode1D", "hipGraphInstantiate",
        "hipGraphExecKernelNodeSetParams", "hipGraphExecMemcpyNodeSetParams1D", "hipGraphLaunch"}) {
    const bool must_fail = std::string(function) == "hipGraphLaunch";
    for (int n = 1; n <= 24; n = n < 6 ? n + 1 : 2 * n) {
      for (const int error : {0, int{hipErrorOutOfMemory}}) {
        SCOPED_TRACE(absl::StrCat(function, " call ", n, ", error ", error));
        OpenWithGraphs();
        const int64_t before = Calls(function);
        SetFault(function, n, error);
        const absl::Status status = run();
        const bool failed = Calls(function) - before >= n;
        EXPECT_TRUE(failed || n > 1);
        EXPECT_EQ(status.ok(), !(failed && must_fail)) << status;
        SetFault(function, 0);
        const absl::Status again = run();
        EXPECT_TRUE(again.ok()) << again;
        Close();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// A kernel that fails on the device fails the launch, and a launch that is refused does not run twice.
TEST_P(GraphsTest, AGraphThatFailsOnTheDevice) {
  OpenWithGraphs();
  const auto move = Load(kMoveFive);
  const DeviceArray p = Put(ColumnShift(), {64, 64}), x = Put(Numbers(64 * 64), {64, 64});
  ASSERT_TRUE(Run(*move, {x, p}).ready.Await().ok());
  SetFault("hipGraphLaunch", 1, hipErrorLaunchFailure);
  const absl::StatusOr<ExecuteResult> result = TryRun(*move, {x, p});
  EXPECT_FALSE(result.ok() && result->done.Await().ok());
  expected_report_ = "device 0 failed with hipErrorLaunchFailure";
}

// The policy, with times that follow from the calls of the runtime.
class GraphCacheTest : public ClientTest {
 protected:
  static constexpr double kSingle = 4e-6;
  static double graph_seconds, change_seconds;
  static GraphCacheTest* test;
  static double Now() {
    return kSingle * static_cast<double>(test->Calls("hipModuleLaunchKernel")) +
           graph_seconds * static_cast<double>(test->Calls("hipGraphLaunch")) +
           change_seconds * static_cast<double>(test->Calls("hipGraphExecKernelNodeSetParams"));
  }

  void Begin(GraphMode mode, int64_t max_nodes = 1 << 16, int64_t max_changed_nodes = 1 << 16) {
    Open({}, 1 << 20);
    test = this;
    loaded_ = Load(kMoveFive);
    program_ = &static_cast<const HipExecutable&>(*compiled_[kMoveFive]).program();
    kernels_ = *LoadedKernels::Load(devices_->api(), 0, program_->image().bytes, program_->kernels());
    GraphCache::Options options;
    options.mode = mode;
    options.nodes = &devices_->graph_nodes(0);
    options.max_nodes = max_nodes;
    options.max_changed_nodes = max_changed_nodes;
    options.now = Now;
    options.log = [this](const std::string& note) { absl::StrAppend(&log_, note, "\n"); };
    cache_ = std::make_unique<GraphCache>(devices_->api(), 0, *kernels_, std::move(options));
    queue_ = *devices_->OpenQueue(0);
    queue_->set_kernels(kernels_.get());
    p_ = Put(ColumnShift(), {64, 64});
    temporary_ = Room({program_->temporary_bytes() / 4 + 1});
    ASSERT_TRUE(p_.ready.Await().ok());
  }
  void End() {
    queue_.reset();
    cache_.reset();
    EXPECT_EQ(devices_->graph_nodes(0).load(), 0);
    kernels_.reset();
    p_ = temporary_ = {};
    loaded_.reset();
  }
  // Runs the program in place and waits for it.
  void RunOn(const DeviceArray& x) {
    ASSERT_TRUE(x.ready.Await().ok());
    GraphUses uses;
    GraphQueue held(*queue_, *cache_, &uses);
    void* const address = x.storage->data();
    const absl::Status run =
        program_->Run(held, {address, p_.storage->data()}, {address}, {}, temporary_.storage->data(), {}, nullptr);
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_TRUE(held.Synchronize().ok());
    EXPECT_TRUE(uses.empty());
  }
  int64_t Launches() { return Calls("hipGraphLaunch"); }
  int64_t Made() { return Calls("hipGraphInstantiate"); }

  const GpuProgram* program_ = nullptr;
  std::unique_ptr<LoadedExecutable> loaded_;
  std::unique_ptr<LoadedKernels> kernels_;
  std::unique_ptr<GraphCache> cache_;
  std::unique_ptr<StreamQueue> queue_;
  DeviceArray p_, temporary_;
  std::string log_;
};
double GraphCacheTest::graph_seconds, GraphCacheTest::change_seconds;
GraphCacheTest* GraphCacheTest::test;

TEST_F(GraphCacheTest, GraphsThatAreFasterStay) {
  graph_seconds = 10e-6, change_seconds = 1e-6;
  Begin(GraphMode::kAuto);
  const DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  for (int i = 0; i < 20; ++i) RunOn(x);
  EXPECT_EQ(Calls("hipModuleLaunchKernel"), 3 * kKernels);
  EXPECT_EQ(Launches(), 17);
  EXPECT_EQ(Made(), 1);
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 100));
  EXPECT_EQ(log_, "device 0: 5 kernels and copies are started as a graph\n");
  End();
}

TEST_F(GraphCacheTest, GraphsThatAreSlowerAreGivenUp) {
  graph_seconds = 25e-6, change_seconds = 1e-6;
  Begin(GraphMode::kAuto);
  const DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  for (int i = 0; i < 20; ++i) RunOn(x);
  EXPECT_EQ(Launches(), 4);  // the first one made it
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 100));
  EXPECT_THAT(log_, HasSubstr("5 kernels and copies are started singly again: a graph takes 25.0 us of the host and "
                              "not less than 20.0 us"));
  End();
}

// New arguments change a graph as long as that is faster; arguments that come again get a graph.
TEST_F(GraphCacheTest, ChangesThatAreSlowerAreNotMade) {
  for (const double seconds : {1e-6, 8e-6}) {
    graph_seconds = 10e-6, change_seconds = seconds;
    Begin(GraphMode::kAuto);
    std::vector<DeviceArray> arrays;
    for (int i = 0; i < 12; ++i) arrays.push_back(Put(Numbers(64 * 64, static_cast<float>(i)), {64, 64}));
    for (const DeviceArray& x : arrays) RunOn(x);
    EXPECT_EQ(Made(), 1);
    const bool faster = seconds < 5e-6;
    EXPECT_EQ(Launches(), faster ? 9 : 4) << seconds;
    for (int round = 0; round < 4; ++round) {
      for (int i = 10; i < 12; ++i) RunOn(arrays[static_cast<size_t>(i)]);
    }
    EXPECT_EQ(Made(), faster ? 2 : 3) << seconds;
    for (size_t i = 0; i < arrays.size(); ++i)
      EXPECT_EQ(Get(arrays[i]), MovedBy(Numbers(64 * 64, static_cast<float>(i)), i < 10 ? 5 : 25)) << i;
    arrays.clear();
    End();
    Close();
  }
}

TEST_F(GraphCacheTest, NodesAreLimited) {
  graph_seconds = 1e-6, change_seconds = 1e-6;
  Begin(GraphMode::kOn, 2 * kKernels);
  std::vector<DeviceArray> arrays;
  for (int i = 0; i < 5; ++i) arrays.push_back(Put(Numbers(64 * 64, static_cast<float>(i)), {64, 64}));
  for (const DeviceArray& x : arrays) RunOn(x);
  EXPECT_EQ(Made(), 2);
  EXPECT_EQ(Launches(), 5);
  EXPECT_EQ(devices_->graph_nodes(0).load(), 2 * kKernels);
  for (size_t i = 0; i < arrays.size(); ++i)
    EXPECT_EQ(Get(arrays[i]), MovedBy(Numbers(64 * 64, static_cast<float>(i)), 5)) << i;
  End();
}

// A version of the runtime that cannot change copies.
TEST_F(GraphCacheTest, CopiesThatCannotBeChanged) {
  Begin(GraphMode::kOn);
  HipApi api = devices_->api();
  api.hipGraphExecMemcpyNodeSetParams1D = nullptr;
  std::atomic<int64_t> nodes{0};
  {
    StartSequence one, two;
    const DeviceArray x = Room({64}), y = Room({64});
    one.AddCopy(p_.storage->data(), x.storage->data(), 256);
    two.AddCopy(p_.storage->data(), y.storage->data(), 256);
    EXPECT_TRUE(one.HasShapeOf(two));
    EXPECT_EQ(one.HashShape(), two.HashShape());
    EXPECT_FALSE(one.HasArgumentsOf(two));
    const ScopedDevice current(api, 0);
    const auto graph = StartGraph::Make(api, 0, *kernels_, one, &nodes);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ((*graph)->CountChanges(one), 0u);
    EXPECT_EQ((*graph)->CountChanges(two), std::nullopt);
    EXPECT_EQ(nodes.load(), 1);
  }
  EXPECT_EQ(nodes.load(), 0);
  End();
}

TEST_F(GraphCacheTest, AGraphThatWasChangedOftenIsMadeAnew) {
  Begin(GraphMode::kOn, kKernels, 3);
  std::vector<DeviceArray> arrays;
  for (int i = 0; i < 6; ++i) arrays.push_back(Put(Numbers(64 * 64, static_cast<float>(i)), {64, 64}));
  for (const DeviceArray& x : arrays) RunOn(x);
  // Each change is one of two nodes. There is room for one graph.
  EXPECT_EQ(Made(), 2);
  EXPECT_EQ(Calls("hipGraphExecDestroy"), 1);
  EXPECT_EQ(Launches(), 6);
  for (size_t i = 0; i < arrays.size(); ++i)
    EXPECT_EQ(Get(arrays[i]), MovedBy(Numbers(64 * 64, static_cast<float>(i)), 5)) << i;
  End();
}

TEST_F(GraphCacheTest, FailuresEndTheGraphsOfAProgram) {
  Begin(GraphMode::kOn);
  const DeviceArray x = Put(Numbers(64 * 64), {64, 64});
  for (int i = 0; i < 3; ++i) {
    SetFault("hipGraphInstantiate", 1, hipErrorOutOfMemory);
    RunOn(x);
  }
  EXPECT_THAT(log_, HasSubstr("device 0: no more graphs are made: hipGraphInstantiate: out of memory"));
  const int64_t created = Calls("hipGraphCreate");
  RunOn(x);
  EXPECT_EQ(Calls("hipGraphCreate"), created);
  EXPECT_EQ(Launches(), 0);
  EXPECT_EQ(Get(x), MovedBy(Numbers(64 * 64), 20));
  End();
}

}  // namespace
}  // namespace backplane::hip
