// Collectives by an emulated library, which can be wrong, slow, fail or hang. Results are those of the definitions, and
// launches end.
#include <dlfcn.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "plugins/hip/backend/testing/collectives_testing.h"
#include "plugins/hip/libraries/testing/emulated_collective.h"

namespace backplane::hip {
namespace {

using emulated_collective::Mode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kAlways = 1e9;  // the library is used if its results are right

constexpr char kAllReduce[] = R"(HloModule m
combine { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT r = TYPE[] OP(a, b) }
ENTRY main {
  x = f32[512] parameter(0)
  n = TYPE[512] convert(x)
  s = TYPE[512] all-reduce(n), replica_groups={}, to_apply=combine
  ROOT r = f32[512] convert(s)
})";

class LibraryCollectivesTest : public CollectivesTest {
 protected:
  void OpenWithLibrary(double clearly_faster = kAlways, const std::string& latency_us = "0", int64_t memory_bytes = 0) {
    emulated_ = dlopen(EMULATED_RCCL, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(emulated_, nullptr) << dlerror();
    SetMode(Mode::kRight);
    prepare_ = [this, clearly_faster](Runtime& runtime) {
      LibraryCollectives::Options options;
      options.opened = OpenCollectiveLibrary(devices_->api(), EMULATED_RCCL);
      EXPECT_NE(options.opened.library, nullptr) << options.opened.note;
      options.clearly_faster = clearly_faster;
      options.time_limit = comparison_limit_;
      runtime.collectives = std::make_unique<LibraryCollectives>(devices_, std::move(options));
    };
    OpenDevices(latency_us, memory_bytes);
  }
  void TearDown() override {
    CollectivesTest::TearDown();
    if (emulated_ == nullptr) return;
    SetMode(Mode::kRight);
    EXPECT_EQ(Emulated<emulated_collective::LiveComms>("emulatedCollectiveLiveComms")(), 0);
  }
  template <typename Function>
  Function Emulated(const char* name) {
    return reinterpret_cast<Function>(dlsym(emulated_, name));
  }
  void SetMode(Mode mode) { Emulated<emulated_collective::SetMode>("emulatedCollectiveSetMode")(mode); }
  void SetLibraryFault(const char* function, int64_t n) {
    Emulated<emulated_collective::SetFault>("emulatedCollectiveSetFault")(function, n);
  }
  int64_t LibraryCalls(const char* function) {
    return Emulated<emulated_collective::CallCount>("emulatedCollectiveCallCount")(function);
  }
  std::shared_ptr<Executable> CompileAllReduce(const char* type = "f32", const char* op = "add") {
    return Compile(absl::StrReplaceAll(kAllReduce, {{"TYPE", type}, {"OP", op}}));
  }
  static Values SumOf(const std::vector<Values>& inputs) {
    Values sum(inputs[0].size(), 0.0f);
    for (const Values& x : inputs) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
    }
    return sum;
  }
  void ExpectSums(LoadedExecutable& program) {
    const std::vector<Values> inputs = Inputs(512);
    for (const auto& device : RunOnValues(program, inputs, {512})) EXPECT_EQ(device[0], SumOf(inputs));
  }
  // Runs the program and returns how many devices got an error. Appends the messages of all to *messages.
  int CountErrors(LoadedExecutable& program, std::string* messages = nullptr) {
    std::vector<std::vector<DeviceArray>> arguments;
    for (size_t d = 0; d < kDevices; ++d)
      arguments.push_back({Put(Inputs(512)[d], {512}, static_cast<int32_t>(2 * d))});
    for (const auto& row : arguments) EXPECT_TRUE(row[0].ready.Await().ok());
    int errors = 0;
    for (const ExecuteResult& result : RunAll(program, arguments)) {
      const absl::Status ended = result.done.Await();
      errors += ended.ok() ? 0 : 1;
      if (messages != nullptr) absl::StrAppend(messages, ended.message(), "\n");
    }
    return errors;
  }
  void* emulated_ = nullptr;
  std::chrono::milliseconds comparison_limit_{30000};
};
INSTANTIATE_TEST_SUITE_P(Pool, LibraryCollectivesTest, ::testing::Values(0, 1 << 20),
                         [](const auto& info) { return absl::StrCat("slabs", info.param); });

// The limit is that of the collective, not of the work around it.
TEST_P(LibraryCollectivesTest, LongWorkAroundACollectiveIsNoFailure) {
  collective_time_limit_ = std::chrono::milliseconds(1000);
  OpenWithLibrary();
  const auto program = Compile(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[512] parameter(0)
  y1 = f32[1] slice(x), slice={[0:1]}
  y0 = f32[] reshape(y1)
  a = f32[1024,1024] broadcast(y0), dimensions={}
  a1 = f32[1024,1024] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a2 = f32[1024,1024] dot(a1, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w1 = f32[1,512] slice(a2), slice={[0:1],[0:512]}
  w = f32[512] reshape(w1)
  s = f32[512] all-reduce(w), replica_groups={}, to_apply=sum
  s1 = f32[1] slice(s), slice={[0:1]}
  s0 = f32[] reshape(s1)
  b = f32[1024,1024] broadcast(s0), dimensions={}
  d1 = f32[1024,1024] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d2 = f32[1024,1024] dot(d1, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d3 = f32[1024,1024] dot(d2, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[1,512] slice(d3), slice={[0:1],[0:512]}
  zz = f32[512] reshape(z)
  ROOT r = f32[512] add(s, zz)
})");
  const auto loaded = *client_->Load(program, {});
  for (int i = 0; i < 3; ++i) {
    std::string messages;
    EXPECT_EQ(CountErrors(*loaded, &messages), 0) << messages;
  }
}

TEST_P(LibraryCollectivesTest, EachKindOfCollective) {
  OpenWithLibrary();
  const auto program = Compile(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY main {
  x = f32[4,8] parameter(0)
  y = f32[4,8] negate(x)
  two = (f32[4,8], f32[4,8]) all-reduce(x, y), replica_groups={}, to_apply=sum
  t0 = f32[4,8] get-tuple-element(two), index=0
  t1 = f32[4,8] get-tuple-element(two), index=1
  m = f32[4,8] all-reduce(y), replica_groups={{0,2},{3,1}}, to_apply=most
  g = f32[16,8] all-gather(x), replica_groups={}, dimensions={0}
  s = f32[1,8] reduce-scatter(x), replica_groups={{3,2,1,0}}, dimensions={0}, to_apply=sum
  e = f32[4,8] all-to-all(x), replica_groups={}, dimensions={0}
  p = f32[4,8] collective-permute(x), source_target_pairs={{0,1},{1,2},{3,0}}
  ROOT r = (f32[4,8], f32[4,8], f32[4,8], f32[16,8], f32[1,8], f32[4,8], f32[4,8]) tuple(t0, t1, m, g, s, e, p)
})");
  const auto loaded = *client_->Load(program, {});
  const std::vector<Values> x = Inputs(32);
  int64_t copies = 0;
  for (int run = 0; run < 3; ++run) {
    if (run == 1) copies = Calls("hipMemcpyPeerAsync");
    const auto results = RunOnValues(*loaded, x, {4, 8});
    const Values sum = SumOf(x);
    for (size_t d = 0; d < kDevices; ++d) {
      const std::vector<Values>& r = results[d];
      for (size_t i = 0; i < 32; ++i) {
        EXPECT_EQ(r[0][i], sum[i]);
        EXPECT_EQ(r[1][i], -sum[i]);
        EXPECT_EQ(r[2][i], std::max(-x[d][i], -x[(d + 2) % 4][i]));
        EXPECT_EQ(r[5][i], x[i / 8][d * 8 + i % 8]);
        EXPECT_EQ(r[6][i], d == 1 ? x[0][i] : d == 2 ? x[1][i] : d == 0 ? x[3][i] : 0);
      }
      for (size_t i = 0; i < 128; ++i) EXPECT_EQ(r[3][i], x[i / 32][i % 32]);
      for (size_t j = 0; j < 8; ++j) EXPECT_EQ(r[4][j], sum[(3 - d) * 8 + j]);
    }
  }
  EXPECT_EQ(Calls("hipMemcpyPeerAsync"), copies);  // after the comparisons
  for (const char* function : {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclSend", "ncclRecv"})
    EXPECT_GT(LibraryCalls(function), 0) << function;
  const std::string log = program->compile_log();
  EXPECT_THAT(log, HasSubstr("(2.22.3) are compared with copies between devices"));
  EXPECT_THAT(log, HasSubstr("devices 0,1,2,3: all-reduce sum of 32 f32, 4 members; all-reduce sum of 32 f32, 4 "
                             "members: "));
  EXPECT_THAT(log, HasSubstr("devices 3,2,1,0: reduce-scatter sum of 8 f32, 4 members: "));
  EXPECT_THAT(log, HasSubstr("permute of 128 bytes from 3,0,1,-1, 4 members: "));
  EXPECT_THAT(log, Not(HasSubstr("copies do it"))) << log;
}

// Communicators are made once for a list of devices: here for {0,1,2,3}, for all programs.
TEST_P(LibraryCollectivesTest, DevicesAreConnectedOnce) {
  OpenWithLibrary();
  const int64_t before = LibraryCalls("ncclCommInitAll");
  for (const char* type : {"f32", "f64", "s32", "u32", "s64", "f16", "s8"}) {
    for (const char* op : {"add", "maximum"}) {
      const auto program = CompileAllReduce(type, op);
      const auto loaded = *client_->Load(program, {});
      std::vector<Values> inputs(kDevices);
      Values want(512);
      for (size_t d = 0; d < kDevices; ++d) inputs[d] = Numbers(512, static_cast<float>(3 * d), 23);
      for (size_t i = 0; i < 512; ++i) {
        const Values column = {inputs[0][i], inputs[1][i], inputs[2][i], inputs[3][i]};
        want[i] = *op == 'a' ? column[0] + column[1] + column[2] + column[3]
                             : *std::max_element(column.begin(), column.end());
      }
      for (const auto& device : RunOnValues(*loaded, inputs, {512})) EXPECT_EQ(device[0], want) << type << " " << op;
      EXPECT_THAT(program->compile_log(), HasSubstr("the library does it")) << type << " " << op;
    }
  }
  EXPECT_EQ(LibraryCalls("ncclCommInitAll"), before + 1);
}

TEST_P(LibraryCollectivesTest, TheFasterOneDoesIt) {
  OpenWithLibrary(0.97, "2000");
  const auto program = CompileAllReduce();
  ExpectSums(**client_->Load(program, {}));
  EXPECT_THAT(program->compile_log(), HasSubstr("the library does it"));
  Close();
  OpenWithLibrary(0.97);
  SetMode(Mode::kSlow);
  const auto other = Compile(absl::StrReplaceAll(kAllReduce, {{"TYPE", "f32"}, {"OP", "add"}, {"512", "20000"}}));
  const auto slow = *client_->Load(other, {});
  const std::vector<Values> inputs = Inputs(20000);
  for (const auto& device : RunOnValues(*slow, inputs, {20000})) EXPECT_EQ(device[0], SumOf(inputs));
  EXPECT_THAT(other->compile_log(), HasSubstr("copies do it"));
  EXPECT_THAT(other->compile_log(), Not(HasSubstr("is dropped")));
}

// A library that is wrong is found out, and the results are those of copies.
TEST_P(LibraryCollectivesTest, WrongResultsDropTheLibrary) {
  struct Case {
    Mode mode;
    const char* type;
    const char* op;
    const char* why;
  };
  for (const Case& c : {Case{Mode::kWrong, "f32", "add", "its result for device 3 differs in element 511"},
                        Case{Mode::kWrong, "s32", "minimum", "its result for device 3 differs in element 511"},
                        Case{Mode::kBeyond, "f32", "add", "it writes beyond the result"},
                        Case{Mode::kUnordered, "f32", "add", "two runs differ"},
                        Case{Mode::kUnordered, "f64", "add", "two runs differ"},
                        Case{Mode::kRoundsEachTerm, "bf16", "add", "differs in element"},
                        Case{Mode::kRoundsEachTerm, "f16", "add", "differs in element"},
                        Case{Mode::kSkipsNan, "f32", "maximum", "differs in element"},
                        Case{Mode::kSkipsNan, "bf16", "minimum", "differs in element"}}) {
    SCOPED_TRACE(absl::StrCat(static_cast<int>(c.mode), " ", c.type, " ", c.op));
    OpenWithLibrary();
    SetMode(c.mode);
    const auto program = CompileAllReduce(c.type, c.op);
    {
      const auto loaded = *client_->Load(program, {});
      const std::vector<Values> inputs(kDevices, Values(512, 2.0f));
      const Values want(512, *c.op == 'a' ? 8.0f : 2.0f);
      for (int run = 0; run < 2; ++run) {
        for (const auto& device : RunOnValues(*loaded, inputs, {512})) EXPECT_EQ(device[0], want);
      }
    }
    EXPECT_THAT(program->compile_log(), HasSubstr(c.why));
    EXPECT_THAT(program->compile_log(), HasSubstr("is dropped"));
    Close();
  }
}

TEST_P(LibraryCollectivesTest, EachCallOfTheLibraryMayFail) {
  for (const char* function : {"ncclCommInitAll", "ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"}) {
    for (const int64_t n : {1, 2, 5, 7, 8, 9, 30}) {
      SCOPED_TRACE(absl::StrCat(function, " call ", n));
      OpenWithLibrary();
      const int64_t before = LibraryCalls(function);
      SetLibraryFault(function, n);
      const auto program = CompileAllReduce();
      {
        const auto loaded = *client_->Load(program, {});
        // In the comparison it drops the library, in a launch it is an error of all devices.
        int failed = 0;
        for (int run = 0; run < 3; ++run) {
          const int errors = CountErrors(*loaded);
          EXPECT_TRUE(errors == 0 || errors == kDevices) << errors;
          failed += errors > 0 ? 1 : 0;
        }
        EXPECT_LE(failed, LibraryCalls(function) - before >= n ? 1 : 0);
        SetLibraryFault(function, 0);
        ExpectSums(*loaded);
      }
      Close();
      ASSERT_FALSE(HasFailure());
    }
  }
}

// If the devices cannot be connected, the next launch tries again, three times.
TEST_P(LibraryCollectivesTest, DevicesThatCannotBeConnected) {
  OpenWithLibrary();
  const auto program = CompileAllReduce();
  const auto loaded = *client_->Load(program, {});
  const int64_t before = LibraryCalls("ncclCommInitAll");
  for (int run = 0; run < 5; ++run) {
    SetLibraryFault("ncclCommInitAll", 1);
    ExpectSums(*loaded);
  }
  SetLibraryFault("ncclCommInitAll", 0);
  EXPECT_EQ(LibraryCalls("ncclCommInitAll"), before + 3);
  EXPECT_THAT(program->compile_log(), HasSubstr("is not used: ncclCommInitAll returned 1"));
}

// The devices wait for one another. When one fails, the others are released, and get an error.
TEST_P(LibraryCollectivesTest, WorkThatHangsIsEnded) {
  collective_time_limit_ = std::chrono::milliseconds(2000);
  OpenWithLibrary();
  const auto program = CompileAllReduce();
  const auto loaded = *client_->Load(program, {});
  ExpectSums(*loaded);
  for (const auto& [mode, why] : {std::pair(Mode::kHangs, "took longer than 2000 ms"),
                                  std::pair(Mode::kHangsWithError, "a collective returned 6")}) {
    SetMode(mode);
    std::string messages;
    EXPECT_EQ(CountErrors(*loaded, &messages), kDevices);
    EXPECT_THAT(messages, HasSubstr(why));
    SetMode(Mode::kRight);
    ExpectSums(*loaded);
    EXPECT_GT(LibraryCalls("ncclCommAbort"), 0);
  }
}

// A program that is one collective starts nothing by itself. Its memory must not be used again before the library's
// work has ended, although other launches have been told of the failure already.
TEST_P(LibraryCollectivesTest, TheMemoryOfACollectiveThatHangsIsKeptUntilItEnds) {
  collective_time_limit_ = std::chrono::milliseconds(1000);
  OpenWithLibrary(kAlways, /*latency_us=*/"20000");
  const auto program = Compile(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[512] parameter(0)
  ROOT s = f32[512] all-reduce(x), replica_groups={}, to_apply=sum
})");
  const auto loaded = *client_->Load(program, {});
  ExpectSums(*loaded);
  std::vector<std::vector<DeviceArray>> arguments;
  for (size_t d = 0; d < kDevices; ++d) arguments.push_back({Put(Inputs(512)[d], {512}, static_cast<int32_t>(2 * d))});
  for (const auto& row : arguments) ASSERT_TRUE(row[0].ready.Await().ok());
  SetMode(Mode::kHangs);
  std::vector<std::vector<ExecuteResult>> launches;
  for (int i = 0; i < 4; ++i) launches.push_back(RunAll(*loaded, arguments));
  arguments.clear();
  for (auto& launch : launches) {
    for (const ExecuteResult& result : launch) EXPECT_FALSE(result.done.Await().ok());
    launch.clear();
    for (int32_t d = 0; d < kDevices; ++d) EXPECT_EQ(Get(Put(Inputs(512)[0], {512}, 2 * d)), Inputs(512)[0]);
  }
  SetMode(Mode::kRight);
  ExpectSums(*loaded);
}

TEST_P(LibraryCollectivesTest, AGroupThatFailsHalfwayIsEnded) {
  OpenWithLibrary();
  const auto loaded = *client_->Load(CompileAllReduce(), {});
  ExpectSums(*loaded);
  SetMode(Mode::kFailsHalfway);
  std::string messages;
  EXPECT_EQ(CountErrors(*loaded, &messages), kDevices);
  EXPECT_THAT(messages, HasSubstr("ncclGroupEnd returned 3"));
  SetMode(Mode::kRight);
  ExpectSums(*loaded);
}

TEST_P(LibraryCollectivesTest, AComparisonThatHangsIsEnded) {
  comparison_limit_ = std::chrono::milliseconds(1000);
  OpenWithLibrary();
  SetMode(Mode::kHangs);
  const auto program = CompileAllReduce();
  const auto loaded = *client_->Load(program, {});
  ExpectSums(*loaded);
  EXPECT_THAT(program->compile_log(), HasSubstr("is dropped: a collective took longer than 1000 ms; copies do it"));
}

// A kernel before the collective fails on one device.
TEST_P(LibraryCollectivesTest, ADeviceThatFailsEndsTheLaunchEverywhere) {
  OpenWithLibrary();
  const auto loaded = *client_->Load(CompileAllReduce("f64"), {});
  ExpectSums(*loaded);
  SetFault("hipModuleLaunchKernel", 1, hipErrorLaunchFailure);
  EXPECT_EQ(CountErrors(*loaded), kDevices);
  expected_report_ = "device ";
}

// Test operands must leave memory for programs.
TEST_P(LibraryCollectivesTest, ComparisonsNeedMemory) {
  OpenWithLibrary(kAlways, "0", 25 << 10);
  const auto program = CompileAllReduce();
  const auto loaded = *client_->Load(program, {});
  ExpectSums(*loaded);
  EXPECT_THAT(program->compile_log(), HasSubstr("is dropped: test operands and results take 6656 bytes, and may take "
                                                "6400; copies do it"));
}

// A library that is named is missed if it is not there or is another one.
TEST_P(LibraryCollectivesTest, OtherLibraries) {
  OpenWithLibrary();
  for (const auto& [name, note] : {std::pair("/nowhere/librccl.so.1", "not found"),
                                   std::pair(HIPEMU_LIBRARY, "is not used: it has no function of NCCL")}) {
    const OpenedCollectiveLibrary opened = OpenCollectiveLibrary(devices_->api(), name);
    EXPECT_EQ(opened.library, nullptr);
    EXPECT_THAT(opened.note, HasSubstr(note));
  }
  EXPECT_EQ(OpenCollectiveLibrary(devices_->api(), "").note, "");  // none is looked for on the emulated platform
}

// Many launches at a time, of programs with different groups and orders of devices. Each has streams of its own.
TEST_P(LibraryCollectivesTest, LaunchesAtTheSameTime) {
  OpenWithLibrary(kAlways, "50");
  const char* groups[] = {"{}", "{{3,2,1,0}}", "{{0,1},{2,3}}", "{{1,2},{3,0}}", "{{2,0},{1,3}}"};
  std::vector<std::unique_ptr<LoadedExecutable>> programs;
  for (const char* group : groups) {
    programs.push_back(*client_->Load(Compile(absl::StrReplaceAll(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[512] parameter(0)
  a = f32[512] all-reduce(x), replica_groups=GROUPS, to_apply=sum
  b = f32[512] all-reduce(a), replica_groups={{0,3},{2,1}}, to_apply=sum
  c = f32[512] collective-permute(b), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT r = f32[512] add(c, x)
})",
                                                                  {{"GROUPS", group}})),
                                      {}));
  }
  const std::vector<Values> inputs = Inputs(512);
  std::vector<std::vector<DeviceArray>> arguments;
  for (size_t d = 0; d < kDevices; ++d) arguments.push_back({Put(inputs[d], {512}, static_cast<int32_t>(2 * d))});
  std::vector<std::vector<Values>> want;
  for (const auto& program : programs) {
    want.emplace_back();
    for (const ExecuteResult& result : RunAll(*program, arguments)) want.back().push_back(Get(result.outputs[0]));
  }
  // The sum over all devices, twice, as devices 0 and 3, and 1 and 2, add it; then x.
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(want[0][0][i], 2 * SumOf(inputs)[i] + inputs[0][i]);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::vector<ExecuteResult>> all;
    for (const auto& program : programs) all.push_back(RunAll(*program, arguments));
    for (size_t k = 0; k < programs.size(); ++k) {
      for (size_t d = 0; d < kDevices; ++d) EXPECT_EQ(Get(all[k][d].outputs[0]), want[k][d]) << k << " " << d;
    }
  }
}

}  // namespace
}  // namespace backplane::hip
