// Collectives between four emulated devices, whose programs copy from one another and combine, without host memory. The
// results are given by the definitions of the operations. The emulated runtime reports accesses that nothing orders.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "plugins/hip/backend/testing/collectives_testing.h"

namespace backplane::hip {
namespace {

INSTANTIATE_TEST_SUITE_P(Pool, CollectivesTest, ::testing::Values(0, 1 << 20),
                         [](const auto& info) { return absl::StrCat("slabs", info.param); });

TEST_P(CollectivesTest, AllReduce) {
  OpenDevices();
  const auto program = Compile(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY main {
  x = f32[10,7] parameter(0)
  y = f32[10,7] negate(x)
  s = f32[10,7] all-reduce(x), replica_groups={}, to_apply=sum
  m = f32[10,7] all-reduce(y), replica_groups={{0,2},{3,1}}, to_apply=most
  two = (f32[10,7], f32[10,7]) all-reduce(x, y), replica_groups={}, to_apply=sum
  t = f32[10,7] get-tuple-element(two), index=1
  ROOT r = (f32[10,7], f32[10,7], f32[10,7]) tuple(s, m, t)
})");
  const auto loaded = *client_->Load(program, {});
  const std::vector<Values> inputs = Inputs(70);
  const int64_t copies = Calls("hipMemcpyPeerAsync"), out = Calls("hipMemcpyDtoHAsync");
  const auto results = RunOnValues(*loaded, inputs, {10, 7});
  EXPECT_GT(Calls("hipMemcpyPeerAsync"), copies);
  EXPECT_EQ(Calls("hipMemcpyDtoHAsync"), out + 3 * kDevices);  // the results, and nothing else
  for (size_t d = 0; d < kDevices; ++d) {
    for (size_t i = 0; i < 70; ++i) {
      const float sum = inputs[0][i] + inputs[1][i] + inputs[2][i] + inputs[3][i];
      EXPECT_EQ(results[d][0][i], sum);
      EXPECT_EQ(results[d][1][i], std::max(-inputs[d][i], -inputs[(d + 2) % 4][i]));
      EXPECT_EQ(results[d][2][i], -sum);
    }
  }
}

// A sum of bf16 is rounded once: 256 + 1 + 1 + 1 is 259, which rounds to 260, but each single step would stay at 256.
TEST_P(CollectivesTest, NarrowSumsAreRoundedOnce) {
  OpenDevices();
  const auto loaded = *client_->Load(Compile(R"(HloModule m
sum { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
ENTRY main {
  x = f32[33] parameter(0)
  n = bf16[33] convert(x)
  s = bf16[33] all-reduce(n), replica_groups={}, to_apply=sum
  ROOT r = f32[33] convert(s)
})"),
                                     {});
  std::vector<Values> inputs(kDevices, Values(33, 1.0f));
  inputs[0] = Values(33, 256.0f);
  for (const auto& device : RunOnValues(*loaded, inputs, {33})) EXPECT_EQ(device[0], Values(33, 260.0f));
}

TEST_P(CollectivesTest, GatherScatterAndExchange) {
  OpenDevices();
  const auto program = Compile(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[4,8] parameter(0)
  g0 = f32[16,8] all-gather(x), replica_groups={}, dimensions={0}
  g1 = f32[4,16] all-gather(x), replica_groups={{1,0},{2,3}}, dimensions={1}
  s0 = f32[1,8] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum
  s1 = f32[4,2] reduce-scatter(x), replica_groups={{3,2,1,0}}, dimensions={1}, to_apply=sum
  e = f32[4,8] all-to-all(x), replica_groups={}, dimensions={1}
  p = f32[4,8] collective-permute(x), source_target_pairs={{0,1},{1,2},{3,0}}
  b = f32[4,8] collective-broadcast(x), replica_groups={{2,0,3}}
  ROOT r = (f32[16,8], f32[4,16], f32[1,8], f32[4,2], f32[4,8], f32[4,8], f32[4,8]) tuple(g0, g1, s0, s1, e, p, b)
})");
  const auto loaded = *client_->Load(program, {});
  const std::vector<Values> x = Inputs(32);
  const auto results = RunOnValues(*loaded, x, {4, 8});
  const size_t partner[] = {1, 0, 3, 2}, first[] = {1, 1, 2, 2};
  for (size_t d = 0; d < kDevices; ++d) {
    const std::vector<Values>& r = results[d];
    for (size_t i = 0; i < 16; ++i) {
      for (size_t j = 0; j < 8; ++j) EXPECT_EQ(r[0][i * 8 + j], x[i / 4][i % 4 * 8 + j]);
    }
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = 0; j < 16; ++j) {
        const size_t from = j < 8 ? first[d] : partner[first[d]];
        EXPECT_EQ(r[1][i * 16 + j], x[from][i * 8 + j % 8]) << d;
      }
      for (size_t j = 0; j < 2; ++j) {
        const size_t at = i * 8 + (3 - d) * 2 + j;  // device d is at position 3 - d of the group
        EXPECT_EQ(r[3][i * 2 + j], x[0][at] + x[1][at] + x[2][at] + x[3][at]);
      }
      for (size_t j = 0; j < 8; ++j) {
        const size_t at = i * 8 + j;
        EXPECT_EQ(r[4][at], x[j / 2][i * 8 + d * 2 + j % 2]);
        EXPECT_EQ(r[5][at], d == 1 ? x[0][at] : d == 2 ? x[1][at] : d == 0 ? x[3][at] : 0);
        EXPECT_EQ(r[6][at], d == 1 ? 0 : x[2][at]);
      }
    }
    for (size_t j = 0; j < 8; ++j)
      EXPECT_EQ(r[2][j], x[0][d * 8 + j] + x[1][d * 8 + j] + x[2][d * 8 + j] + x[3][d * 8 + j]);
  }
}

// Each device overwrites what the others read in the iteration before. Copies take a while.
TEST_P(CollectivesTest, LoopsOverwriteWhatTheOthersHaveRead) {
  OpenDevices("300");
  const auto loaded = *client_->Load(Compile(R"(HloModule m
more { s = (s32[], f32[4096]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(12) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4096] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4096] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  c = f32[] constant(1)
  d = f32[4096] broadcast(c), dimensions={}
  z = f32[4096] add(y, d)
  ROOT t = (s32[], f32[4096]) tuple(j, z)
}
ENTRY main {
  x = f32[4096] parameter(0)
  i = s32[] constant(0)
  s = (s32[], f32[4096]) tuple(i, x)
  w = (s32[], f32[4096]) while(s), condition=more, body=step
  ROOT r = f32[4096] get-tuple-element(w), index=1
})"),
                                     {});
  const std::vector<Values> inputs = Inputs(4096);
  const auto results = RunOnValues(*loaded, inputs, {4096});
  for (size_t d = 0; d < kDevices; ++d) EXPECT_EQ(results[d][0], Plus(inputs[d], 12));
}

// Reducers of several operations, and many small pieces, are for the host.
TEST_P(CollectivesTest, TheHostRunsTheOthers) {
  OpenDevices();
  const auto loaded = *client_->Load(Compile(R"(HloModule m
odd { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b) ROOT r = f32[] subtract(c, a) }
ENTRY main {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=odd
})",
                                             /*on_devices=*/false),
                                     {});
  const auto results = RunOnValues(*loaded, Inputs(4), {4});
  for (size_t d = 0; d < kDevices; ++d) EXPECT_EQ(results[d][0], Inputs(4)[3]);
}

// One device's copy fails: all devices of the launch get an error, and the next launch works.
TEST_P(CollectivesTest, AFailureEndsTheLaunchEverywhere) {
  OpenDevices("200");
  const auto loaded = *client_->Load(Compile(R"(HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[512] parameter(0)
  y = f32[512] all-reduce(x), replica_groups={}, to_apply=sum
  z = f32[512] all-reduce(y), replica_groups={}, to_apply=sum
  ROOT r = f32[512] add(z, z)
})"),
                                     {});
  const std::vector<Values> inputs = Inputs(512);
  Values want(512);
  for (size_t i = 0; i < 512; ++i) want[i] = 8 * (inputs[0][i] + inputs[1][i] + inputs[2][i] + inputs[3][i]);
  const auto works = [&] {
    for (const auto& device : RunOnValues(*loaded, inputs, {512})) EXPECT_EQ(device[0], want);
  };
  works();
  for (const char* function : {"hipMemcpyPeerAsync", "hipEventRecord", "hipStreamWaitEvent", "hipModuleLaunchKernel"}) {
    std::vector<std::vector<DeviceArray>> arguments;
    for (size_t d = 0; d < kDevices; ++d) arguments.push_back({Put(inputs[d], {512}, static_cast<int32_t>(2 * d))});
    for (const auto& row : arguments) ASSERT_TRUE(row[0].ready.Await().ok());
    SetFault(function, 3);
    int errors = 0;
    for (const ExecuteResult& result : RunAll(*loaded, arguments)) errors += result.done.Await().ok() ? 0 : 1;
    SetFault(function, 0);
    EXPECT_EQ(errors, kDevices) << function;
    works();
  }
}

}  // namespace
}  // namespace backplane::hip
