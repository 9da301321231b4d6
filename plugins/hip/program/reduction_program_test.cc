// Reductions over many blocks and of columns, and elementwise kernels by rows: against the evaluator.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

class ReductionProgram : public testing::TestWithParam<const char*> {
 protected:
  // Compiles, runs, compares. The log must contain the text, and there must be as many kernels.
  Compiled Check(const std::string& hlo, size_t kernels, const std::string& note, double tolerance = 1e-4) {
    SCOPED_TRACE(hlo);
    Compiled compiled = CompileAndCompare(hlo, GetParam(), tolerance);
    if (compiled.program == nullptr) return compiled;
    const std::string log = absl::StrJoin(compiled.log, "\n");
    EXPECT_EQ(compiled.program->kernels().size(), kernels) << log;
    EXPECT_TRUE(absl::StrContains(log, note)) << note << " in:\n" << log;
    EXPECT_FALSE(absl::StrContains(log, "on the host")) << log;
    for (const KernelResources& k : compiled.program->image().kernels) EXPECT_LE(k.spilled_registers, 0) << k.name;
    return compiled;
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, ReductionProgram, testing::Values("host", "gfx942", "gfx1100"));

constexpr char kReduce[] = R"(HloModule m
f { a = @T[] parameter(0) b = @T[] parameter(1) ROOT r = @T[] @OP(a, b) }
ENTRY e {
  x = @T[@IN] parameter(0)
  start = @T[] parameter(1)
  ROOT r = @T[@OUT] reduce(x, start), dimensions={@DIMS}, to_apply=f
})";

TEST_P(ReductionProgram, ReducesEverythingByManyBlocks) {
  for (const char* op : {"add", "maximum", "minimum"}) {
    for (const char* in : {"131072", "100003", "300,401"}) {
      Check(absl::StrReplaceAll(kReduce, {{"@T", "f32"},
                                          {"@OP", op},
                                          {"@IN", in},
                                          {"@OUT", ""},
                                          {"@DIMS", absl::StrContains(in, ",") ? "0,1" : "0"}}),
            2, "rows: ", 1e-3);
    }
  }
  for (const char* op : {"add", "multiply", "xor", "and", "or"}) {
    Check(absl::StrReplaceAll(kReduce, {{"@T", "s32"}, {"@OP", op}, {"@IN", "70001"}, {"@OUT", ""}, {"@DIMS", "0"}}), 2,
          "rows: ", 0);
  }
}

TEST_P(ReductionProgram, KeepsPartialSumsOfNarrowFloatsWide) {
  Check(absl::StrReplaceAll(kReduce, {{"@T", "bf16"}, {"@OP", "add"}, {"@IN", "80000"}, {"@OUT", ""}, {"@DIMS", "0"}}),
        2, "rows: ", 0.02);
}

TEST_P(ReductionProgram, ReducesColumns) {
  for (const auto& [in, out, dims] : {std::tuple{"100,70", "70", "0"}, std::tuple{"3,40,130", "3,130", "1"},
                                      std::tuple{"33,20", "20", "0"}, std::tuple{"6,50,7,5", "7,5", "0,1"}}) {
    const bool grouped = absl::StrContains(out, "70") || absl::StrContains(out, "130");
    Check(absl::StrReplaceAll(kReduce, {{"@T", "f32"}, {"@OP", "add"}, {"@IN", in}, {"@OUT", out}, {"@DIMS", dims}}), 1,
          grouped ? ", 64 rows in each block" : ", 16 rows in each block");
  }
}

TEST_P(ReductionProgram, ReducesLongColumnsByManyBlocks) {
  Check(
      absl::StrReplaceAll(kReduce, {{"@T", "f32"}, {"@OP", "add"}, {"@IN", "1500,65"}, {"@OUT", "65"}, {"@DIMS", "0"}}),
      2, ", 64 rows in each block", 1e-3);
  // Dimensions that are no neighbours.
  Check(absl::StrReplaceAll(kReduce,
                            {{"@T", "f32"}, {"@OP", "maximum"}, {"@IN", "40,3,1700"}, {"@OUT", "3"}, {"@DIMS", "0,2"}}),
        2, "rows: ", 0);
}

// Reducers that need an order, and results of the columns' own dimensions.
TEST_P(ReductionProgram, ComputesColumnsWithPairsAndSoftmax) {
  Check(R"(HloModule m
pick {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  larger = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  c = pred[] or(larger, nan)
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  d = pred[] or(c, tie)
  v = f32[] select(c, a, b)
  k = s32[] select(d, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[53,71] parameter(0)
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  n = s32[53,71] iota(), iota_dimension=0
  ROOT both = (f32[71], s32[71]) reduce(x, n, low, none), dimensions={0}, to_apply=pick
})",
        1, ", 64 rows in each block", 0);
  Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[50,67] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[67] reduce(x, low), dimensions={0}, to_apply=max
  mb = f32[50,67] broadcast(m), dimensions={1}
  d = f32[50,67] subtract(x, mb)
  p = f32[50,67] exponential(d)
  s = f32[67] reduce(p, zero), dimensions={0}, to_apply=add
  sb = f32[50,67] broadcast(s), dimensions={1}
  ROOT r = f32[50,67] divide(p, sb)
})",
        1, ", 64 rows in each block");
}

// A reducer with several operations, of arrays of several types.
TEST_P(ReductionProgram, ReducesSeveralArraysByManyBlocks) {
  Check(R"(HloModule m
f {
  a = f32[] parameter(0) b = bf16[] parameter(1) i = s32[] parameter(2)
  c = f32[] parameter(3) d = bf16[] parameter(4) j = s32[] parameter(5)
  s = f32[] add(a, c)
  m = bf16[] maximum(d, b)
  x = s32[] xor(i, j)
  ROOT t = (f32[], bf16[], s32[]) tuple(s, m, x)
}
ENTRY e {
  x = f32[2,70001] parameter(0)
  y = bf16[2,70001] parameter(1)
  z = s32[2,70001] parameter(2)
  zero = f32[] constant(1.5)
  low = bf16[] constant(-2)
  none = s32[] constant(5)
  ROOT r = (f32[2], bf16[2], s32[2]) reduce(x, y, z, zero, low, none), dimensions={1}, to_apply=f
})",
        2, "rows: ", 1e-3);
}

// argmax and argmin of few long rows: a kernel for the parts, and one or two for what they give.
TEST_P(ReductionProgram, FindsTheBestElementByManyBlocks) {
  constexpr char kBest[] = R"(HloModule m
pick {
  a = @T[] parameter(0) i = s32[] parameter(1) b = @T[] parameter(2) j = s32[] parameter(3)
  better = pred[] compare(a, b), direction=@BETTER
  nan = pred[] compare(a, a), direction=NE
  c = pred[] or(better, nan)
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  d = pred[] or(c, tie)
  v = @T[] select(c, a, b)
  k = s32[] select(d, i, j)
  ROOT t = (@T[], s32[]) tuple(v, k)
}
ENTRY e {
  x = @T[@IN] parameter(0)
  worst = @T[] constant(@WORST)
  all_worst = @T[@IN] broadcast(worst), dimensions={}
  y = @T[@IN] @OP
  none = s32[] constant(@NONE)
  n = s32[@IN] iota(), iota_dimension=@DIM
  ROOT both = (@T[@OUT], s32[@OUT]) reduce(y, n, worst, none), dimensions={@DIM}, to_apply=pick
})";
  struct Case {
    const char *type, *better, *worst, *in, *out, *dim, *op, *none = "0";
    size_t kernels;
  };
  const Case cases[] = {
      {"f32", "GT", "-inf", "1200007", "", "0", "negate(x)", "0", 3},
      {"f32", "GT", "-inf", "100003", "", "0", "negate(x)", "0", 2},
      {"f32", "LT", "inf", "3,100000", "3", "1", "floor(x)", "0", 2},  // many are equal
      {"f32", "GT", "-inf", "2,70001", "2", "1", "log(x)", "0", 2},    // some are NaN
      {"bf16", "GT", "-inf", "6000,20", "20", "0", "floor(x)", "0", 2},
      {"s32", "GT", "-2147483648", "80001", "", "0", "negate(x)", "0", 2},
      {"f32", "GT", "-inf", "100003", "", "0", "minimum(x, all_worst)", "0", 2},
      // An initial value that others do not beat, and an index that is no first one: one kernel, as before.
      {"f32", "GT", "0", "100003", "", "0", "negate(x)", "0", 1},
      {"f32", "GT", "-inf", "100003", "", "0", "negate(x)", "7", 1},
  };
  for (const Case& c : cases) {
    Check(absl::StrReplaceAll(kBest, {{"@T", c.type},
                                      {"@BETTER", c.better},
                                      {"@WORST", c.worst},
                                      {"@IN", c.in},
                                      {"@OUT", c.out},
                                      {"@DIM", c.dim},
                                      {"@OP", c.op},
                                      {"@NONE", c.none}}),
          c.kernels, "rows: ", 0);
  }
}

// ---- Elementwise kernels: 16 bytes at a time, also where a row or a column is added.

TEST_P(ReductionProgram, LoadsAndStores16Bytes) {
  const Compiled compiled = Check(R"(HloModule m
ENTRY e {
  x = f32[37,64] parameter(0)
  row = f32[64] parameter(1)
  column = f32[37] parameter(2)
  rb = f32[37,64] broadcast(row), dimensions={1}
  cb = f32[37,64] broadcast(column), dimensions={0}
  a = f32[37,64] multiply(x, cb)
  ROOT r = f32[37,64] add(a, rb)
})",
                                  1, "4 in each thread");
  for (const auto& [name, count] : compiled.statistics.by_mnemonic) {
    if (!absl::StartsWith(name, "global_")) continue;
    EXPECT_TRUE(absl::StrContains(name, "x4") || absl::StrContains(name, "b128") || name == "global_load_dword" ||
                name == "global_load_b32")
        << name;  // the column's element is one
    if (absl::StrContains(name, "store")) {
      EXPECT_TRUE(absl::StrContains(name, "x4") || absl::StrContains(name, "b128")) << name;
    }
  }
}

}  // namespace
}  // namespace backplane::hip
