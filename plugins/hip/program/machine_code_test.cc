// Programs compiled for AMD's GPUs and executed instruction by instruction, compared with the evaluator.
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

class MachineCode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, MachineCode, testing::Values("gfx942", "gfx1100"));

int64_t CountMatrixSteps(const Compiled& compiled) {
  int64_t count = 0;
  for (const auto& [name, times] : compiled.statistics.by_mnemonic) {
    if (absl::StrContains(name, "mfma") || absl::StrContains(name, "wmma")) count += times;
  }
  return count;
}

TEST_P(MachineCode, MultipliesByMatrixInstructions) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    const Compiled compiled = CompileAndCompare(absl::StrReplaceAll(R"(HloModule m
ENTRY e {
  x = @[2,70,45] parameter(0)
  y = @[2,45,130] parameter(1)
  ROOT r = @[2,70,130] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
})",
                                                                    {{"@", type}}),
                                                GetParam(), std::string(type) == "f32" ? 1e-4 : 0.05);
    // WMMA has no f32 operands.
    if (std::string(type) == "f32" && std::string(GetParam()) == "gfx1100") continue;
    EXPECT_GT(CountMatrixSteps(compiled), 0) << type;
  }
}

TEST_P(MachineCode, MultipliesTransposedAndSmallMatrices) {
  CompileAndCompare(R"(HloModule m
ENTRY e {
  x = bf16[33,70] parameter(0)
  y = bf16[17,33] parameter(1)
  d = bf16[70,17] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT t = bf16[17,70] transpose(d), dimensions={1,0}
})",
                    GetParam(), 0.05);
}

TEST_P(MachineCode, MultipliesBytes) {
  const Compiled compiled = CompileAndCompare(R"(HloModule m
ENTRY e {
  x = s8[40,100] parameter(0)
  y = s8[100,24] parameter(1)
  ROOT r = s32[40,24] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                              GetParam(), 0);
  if (std::string(GetParam()) == "gfx942") {
    EXPECT_GT(CountMatrixSteps(compiled), 0);
  }
}

TEST_P(MachineCode, ComputesLayers) {
  CompileAndCompare(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[24,64] parameter(0)
  w = f32[64,96] parameter(1)
  bias = f32[96] parameter(2)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  d = f32[24,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[24,96] broadcast(bias), dimensions={1}
  h = f32[24,96] add(d, bb)
  g = f32[24,96] tanh(h)
  m = f32[24] reduce(g, low), dimensions={1}, to_apply=max
  mb = f32[24,96] broadcast(m), dimensions={0}
  c = f32[24,96] subtract(g, mb)
  p = f32[24,96] exponential(c)
  s = f32[24] reduce(p, zero), dimensions={1}, to_apply=add
  sb = f32[24,96] broadcast(s), dimensions={0}
  ROOT r = f32[24,96] divide(p, sb)
})",
                    GetParam(), 1e-4);
}

TEST_P(MachineCode, UpdatesScattersAndLoops) {
  CompileAndCompare(R"(HloModule m
combine { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
more { s = (s32[], f32[4,6]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  u = f32[1,6] broadcast(f), dimensions={}
  y = f32[4,6] dynamic-update-slice(x, u, i, one)
  ROOT t = (s32[], f32[4,6]) tuple(j, y)
}
ENTRY e {
  x = f32[4,6] parameter(0)
  at = s32[9,1] parameter(1)
  u = f32[9,6] parameter(2)
  y = f32[4,6] scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
  i = s32[] constant(0)
  s = (s32[], f32[4,6]) tuple(i, y)
  w = (s32[], f32[4,6]) while(s), condition=more, body=step
  ROOT r = f32[4,6] get-tuple-element(w), index=1
})",
                    GetParam(), 1e-5);
}

}  // namespace
}  // namespace backplane::hip
