// Tests how `validate` learns which arguments a program consumes: with few queries of the plugin, and without missing a
// misuse.
#include <unistd.h>

#include "sdk/layers/calls_test.h"
#include "sdk/layers/validate/programs.h"
#include "sdk/layers/validate/validate.h"

namespace backplane::layers {
namespace {

int g_asked;            // how often the plugin was asked whether a buffer has contents
PJRT_Buffer* g_empty;   // a buffer that has no contents according to the plugin
bool g_refuse_execute;  // whether an execution fails

class TakingTest : public LayersTest {
 protected:
  void SetUp() override {
    g_asked = 0;
    g_empty = nullptr;
    g_refuse_execute = false;
    PJRT_Api& target = TargetCopy();
    target.PJRT_Buffer_IsDeleted = [](PJRT_Buffer_IsDeleted_Args* args) -> PJRT_Error* {
      ++g_asked;
      PJRT_Error* error = GetPjrtApi()->PJRT_Buffer_IsDeleted(args);
      if (args->buffer == g_empty) args->is_deleted = true;
      return error;
    };
    target.PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) -> PJRT_Error* {
      if (!g_refuse_execute) return GetPjrtApi()->PJRT_LoadedExecutable_Execute(args);
      BP_ARGS(a, PJRT_Client_LookupDevice);  // some error
      return GetPjrtApi()->PJRT_Client_LookupDevice(&a);
    };
    LayersTest::Open("validate", {{"file", "none"}}, &target);
    client_ = NewClient();
  }
  void TearDown() override {
    Destroy(client_);
    stack_.reset();
  }
  uint64_t Findings() { return GetReport(*layer_).size(); }
  uint64_t Count() { return GetReport(*layer_).GetCount("use-after-donate"); }
  // Runs the program until its donated arguments are known. `y` is not donated.
  void Learn(PJRT_LoadedExecutable* program, PJRT_Buffer* y) {
    for (int i = 0; i < 9; ++i) RunOnce(program, NewBuffer(client_), y);
  }
  // `x` is consumed.
  void RunOnce(PJRT_LoadedExecutable* program, PJRT_Buffer* x, PJRT_Buffer* y) {
    PJRT_Buffer* z = nullptr;
    EXPECT_OK(Execute(program, {x, y}, &z));
    EXPECT_OK(Destroy(x));
    EXPECT_OK(Destroy(z));
  }
  PJRT_Client* client_ = nullptr;
};

TEST_F(TakingTest, ADeletedArgumentOfAnExecutionIsTold) {
  PJRT_Buffer *x = NewBuffer(client_), *y = NewBuffer(client_), *z = nullptr;
  PJRT_LoadedExecutable* program = Compile(client_, testing::kAdd);
  BP_ARGS(d, PJRT_Buffer_Delete);
  d.buffer = x;
  EXPECT_OK(CALL(PJRT_Buffer_Delete, d));
  EXPECT_FALSE(Execute(program, {x, y}, &z).ok());
  EXPECT_EQ(GetReport(*layer_).GetCount("use-after-delete"), 1);
  EXPECT_OK(Destroy(x));
  EXPECT_OK(Destroy(y));
  Destroy(program);
}

TEST_F(TakingTest, AProgramCompiledAheadBelongsToNoClient) {
  PJRT_Client* client = NewClient();
  BP_ARGS(t, PJRT_Client_TopologyDescription);
  t.client = client;
  EXPECT_OK(CALL(PJRT_Client_TopologyDescription, t));
  std::string code = testing::kAdd;
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  program.code = code.data();
  program.code_size = code.size();
  program.format = "mlir";
  program.format_size = 4;
  BP_ARGS(c, PJRT_Compile);
  c.topology = t.topology;
  c.program = &program;
  c.compile_options = "";
  EXPECT_OK(CALL(PJRT_Compile, c));
  Destroy(client);
  EXPECT_EQ(Findings(), 0);
  BP_ARGS(d, PJRT_Executable_Destroy);
  d.executable = c.executable;
  EXPECT_OK(CALL(PJRT_Executable_Destroy, d));
}

TEST_F(TakingTest, OnceLearnedNothingIsAskedOfArgumentsThatNobodyTook) {
  PJRT_Buffer* y = NewBuffer(client_);
  for (const char* text : {testing::kAdd, testing::kDonate}) {
    PJRT_LoadedExecutable* program = Compile(client_, text);
    Learn(program, y);
    RunOnce(program, NewBuffer(client_), y);  // the state of `y` becomes certain
    EXPECT_GT(g_asked, 0);
    g_asked = 0;
    for (int i = 0; i < 20; ++i) RunOnce(program, NewBuffer(client_), y);
    EXPECT_EQ(g_asked, 0) << text;
    Destroy(program);
  }
  EXPECT_OK(Destroy(y));
  EXPECT_EQ(Findings(), 0);
}

TEST_F(TakingTest, WhatIsTakenIsMissedByEveryLaterUse) {
  PJRT_Buffer* y = NewBuffer(client_);
  PJRT_LoadedExecutable *donate = Compile(client_, testing::kDonate), *add = Compile(client_, testing::kAdd);
  Learn(donate, y);
  Learn(add, y);
  PJRT_Buffer *x = NewBuffer(client_), *z = nullptr, *none = nullptr;
  EXPECT_OK(Execute(donate, {x, y}, &z));
  EXPECT_EQ(Findings(), 0);
  uint64_t found = 0;
  for (int i = 0; i < 2; ++i) {  // in either place, of a program that takes and of one that does not; again and again
    for (PJRT_LoadedExecutable* program : {donate, add}) {
      EXPECT_FALSE(Execute(program, {x, y}, &none).ok());
      EXPECT_EQ(Count(), ++found);
      EXPECT_FALSE(Execute(program, {y, x}, &none).ok());
      EXPECT_EQ(Count(), ++found);
    }
    std::vector<float> values;
    EXPECT_FALSE(Read(x, &values).ok());
    EXPECT_EQ(Count(), ++found);
  }
  for (PJRT_Buffer* b : {x, y, z}) EXPECT_OK(Destroy(b));
  Destroy(donate);
  Destroy(add);
}

TEST_F(TakingTest, AnExecutionThatFailedMayHaveTakenAll) {
  PJRT_Buffer *x = NewBuffer(client_), *y = NewBuffer(client_), *z = nullptr;
  PJRT_LoadedExecutable* add = Compile(client_, testing::kAdd);
  Learn(add, y);
  RunOnce(add, NewBuffer(client_), y);
  g_refuse_execute = true;
  EXPECT_FALSE(Execute(add, {x, y}, &z).ok());
  g_refuse_execute = false;
  g_empty = y;
  EXPECT_EQ(Findings(), 0);
  EXPECT_OK(Execute(add, {x, y}, &z));
  EXPECT_EQ(Count(), 1);
  for (PJRT_Buffer* b : {x, y, z}) EXPECT_OK(Destroy(b));
  Destroy(add);
}

TEST_F(TakingTest, AProgramThatBeginsToTakeIsFoundInTime) {
  PJRT_Buffer* y = NewBuffer(client_);
  PJRT_LoadedExecutable* add = Compile(client_, testing::kAdd);
  Learn(add, y);
  RunOnce(add, NewBuffer(client_), y);
  g_empty = y;
  for (int i = 0; i < 64; ++i) RunOnce(add, NewBuffer(client_), y);
  EXPECT_EQ(Count(), 1);
  EXPECT_OK(Destroy(y));
  Destroy(add);
}

TEST(ProgramTest, WhatTheHostForbadeToTakeMayBeTakenLater) {
  Program program(1);
  int executions = 0;
  for (; !program.HasLearned(); ++executions) {
    EXPECT_TRUE(program.Begin());
    program.RecordExecution(70, {uint64_t{1} << 3, executions == 2 ? uint64_t{1} << 5 : 0});
    ASSERT_LT(executions, 100);
  }
  EXPECT_TRUE(program.MayConsume(3));
  EXPECT_TRUE(program.MayConsume(69)) << "taken once is enough";
  EXPECT_FALSE(program.MayConsume(4));
  EXPECT_FALSE(program.MayConsume(68));
  EXPECT_TRUE(program.MayConsume(70)) << "more arguments than the program has";
  program.RecordExecution(70, {~uint64_t{0}, ~uint64_t{0}});
  EXPECT_FALSE(program.MayConsume(4)) << "it stays as it was learned";
}

}  // namespace
}  // namespace backplane::layers
