// Programs compiled for the host and run without any runtime, compared with the evaluator on the module as it was.
#include "plugins/hip/program/program.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

// `kernels`: how many there must be; `on_host`: how many instructions the host may evaluate.
Compiled Check(const std::string& hlo, size_t kernels, int on_host = 0, double tolerance = 1e-5) {
  Compiled compiled = CompileAndCompare(hlo, "host", tolerance);
  if (compiled.program == nullptr) return compiled;
  EXPECT_EQ(compiled.program->kernels().size(), kernels) << absl::StrJoin(compiled.log, "\n");
  int host = 0;
  for (const std::string& line : compiled.log) host += line.rfind("on the host:", 0) == 0;
  EXPECT_EQ(host, on_host) << absl::StrJoin(compiled.log, "\n");
  ExpectCompilesForGpus(hlo);
  return compiled;
}

TEST(GpuProgram, FusesElementwiseOperations) {
  const Compiled compiled = Check(R"(HloModule m
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  a = f32[1000] add(x, y)
  b = f32[1000] tanh(a)
  ROOT r = f32[1000] multiply(b, x)
})",
                                  1);
  EXPECT_EQ(compiled.program->starts(), 1);
}

TEST(GpuProgram, ComputesMoreElementsThanThreads) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[5000003] parameter(0)
  ROOT r = f32[5000003] negate(x)
})",
        1);
}

TEST(GpuProgram, MovesElements) {
  Check(R"(HloModule m
ENTRY e {
  x = bf16[12,20] parameter(0)
  at = s32[] parameter(1)
  rows = s32[12,1] parameter(2)
  zero = bf16[] constant(0)
  padded = bf16[16,20] pad(x, zero), padding=4_0x0_0
  part = bf16[12,20] dynamic-slice(padded, at, at), dynamic_slice_sizes={12,20}
  taken = bf16[12,20] gather(part, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
  both = bf16[24,20] concatenate(x, taken), dimensions={0}
  t = bf16[20,24] transpose(both), dimensions={1,0}
  ROOT u = bf16[160,3] reshape(t)
})",
        1);
}

TEST(GpuProgram, SoftmaxIsOneKernel) {
  const Compiled compiled = Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
ENTRY e {
  x = f32[64,100] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[64,100] broadcast(m), dimensions={0}
  d = f32[64,100] subtract(x, mb)
  p = f32[64,100] exponential(d)
  s = f32[64] reduce(p, zero), dimensions={1}, to_apply=add
  sb = f32[64,100] broadcast(s), dimensions={0}
  ROOT r = f32[64,100] divide(p, sb)
})",
                                  1);
  EXPECT_NE(absl::StrJoin(compiled.log, "\n").find("rows: 64 of 100, 2 reductions"), std::string::npos);
}

TEST(GpuProgram, ReducesEverything) {
  Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[300,50] parameter(0)
  start = f32[] parameter(1)
  y = f32[300,50] multiply(x, x)
  s = f32[] reduce(y, start), dimensions={0,1}, to_apply=add
  ROOT r = f32[] sqrt(s)
})",
        1);
}

TEST(GpuProgram, ReducesColumnsAndManyValues) {
  Check(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
pick {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  larger = pred[] compare(a, b), direction=GT
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  c = pred[] or(larger, tie)
  v = f32[] select(c, a, b)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
ENTRY e {
  x = f32[33,77] parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  columns = f32[77] reduce(x, zero), dimensions={0}, to_apply=add
  n = s32[33,77] iota(), iota_dimension=1
  both = (f32[33], s32[33]) reduce(x, n, low, none), dimensions={1}, to_apply=pick
  v = f32[33] get-tuple-element(both), index=0
  k = s32[33] get-tuple-element(both), index=1
  ROOT r = (f32[77], f32[33], s32[33]) tuple(columns, v, k)
})",
        2);
}

TEST(GpuProgram, MultipliesMatricesOfAllTypes) {
  for (const char* type : {"f32", "f64", "bf16", "f16", "s32", "u8", "c64"}) {
    Check(absl::StrReplaceAll(R"(HloModule m
ENTRY e {
  x = @[3,70,45] parameter(0)
  y = @[3,45,65] parameter(1)
  ROOT r = @[3,70,65] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
})",
                              {{"@", type}}),
          1, 0, 0.02);
  }
}

TEST(GpuProgram, MultipliesTransposedMatrices) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[45,70] parameter(0)
  y = f32[130,45] parameter(1)
  d = f32[70,130] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  ROOT t = f32[130,70] transpose(d), dimensions={1,0}
})",
        1, 0, 1e-4);
}

TEST(GpuProgram, Convolves) {
  Check(R"(HloModule m
ENTRY e {
  x = f32[2,9,11,6] parameter(0)
  k = f32[3,2,3,8] parameter(1)
  ROOT r = f32[2,5,12,8] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1}, dim_labels=b01f_01io->b01f, feature_group_count=2
})",
        1, 0, 1e-4);
}

TEST(GpuProgram, RunsLoopsAndBranches) {
  const Compiled compiled = Check(R"(HloModule m
more { s = (s32[], f32[100]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(7) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[100] sine(x)
  ROOT t = (s32[], f32[100]) tuple(j, y)
}
yes { x = f32[100] parameter(0) ROOT r = f32[100] negate(x) }
no { x = f32[100] parameter(0) ROOT r = f32[100] exponential(x) }
ENTRY e {
  i = s32[] parameter(0)
  x = f32[100] parameter(1)
  c = pred[] parameter(2)
  s = (s32[], f32[100]) tuple(i, x)
  w = (s32[], f32[100]) while(s), condition=more, body=step
  y = f32[100] get-tuple-element(w), index=1
  ROOT r = f32[100] conditional(c, y, y), true_computation=yes, false_computation=no
})",
                                  5);
  EXPECT_FALSE(compiled.program->starts().has_value());  // the host reads the predicates
}

TEST(GpuProgram, UpdatesInPlace) {
  const Compiled compiled = Check(R"(HloModule m
more { s = (s32[], f32[10,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(12) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], f32[10,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[10,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  u = f32[2,3] broadcast(f), dimensions={}
  y = f32[10,8] dynamic-update-slice(x, u, i, one)
  ROOT t = (s32[], f32[10,8]) tuple(j, y)
}
ENTRY e {
  x = f32[10,8] parameter(0)
  i = s32[] constant(0)
  s = (s32[], f32[10,8]) tuple(i, x)
  w = (s32[], f32[10,8]) while(s), condition=more, body=step
  ROOT r = f32[10,8] get-tuple-element(w), index=1
})",
                                  3);
  EXPECT_NE(absl::StrJoin(compiled.log, "\n").find("update: 6 elements"), std::string::npos);
  // The trip count is known: in each iteration the counter and the update, and perhaps copies.
  ASSERT_TRUE(compiled.program->starts().has_value());
  EXPECT_GE(*compiled.program->starts(), 24);
  EXPECT_LE(*compiled.program->starts(), 60);
}

TEST(GpuProgram, Scatters) {
  for (const char* combine : {"add(a, b)", "multiply(a, b)", "maximum(a, b)", "add(b, b)"}) {
    for (const char* type : {"f32", "s32", "bf16", "u8"}) {
      Check(absl::StrReplaceAll(R"(HloModule m
combine { a = @[] parameter(0) b = @[] parameter(1) ROOT r = @[] OP }
ENTRY e {
  x = @[4,6] parameter(0)
  i = s32[9,1] parameter(1)
  u = @[9,6] parameter(2)
  ROOT r = @[4,6] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
})",
                                {{"@", type}, {"OP", combine}}),
            1, 0, 0.02);
    }
  }
}

// The host's program may bring fusions along whose results share memory with what they read.
TEST(GpuProgram, ReadsAllBeforeItStoresInPlace) {
  Check(R"(HloModule m
fa {
  q = s32[1024] parameter(0)
  ROOT z = s32[1024] negate(q)
}
fc {
  p = s32[1024] parameter(0)
  a = s32[1024] parameter(1)
  one = s32[] constant(1)
  b = s32[1024] broadcast(one), dimensions={}
  r0 = s32[1024] add(a, b)
  r1 = s32[1024] multiply(p, a)
  ROOT t = (s32[1024], s32[1024]) tuple(r0, r1)
}
fd {
  p = s32[1024] parameter(0)
  a = s32[1024] parameter(1)
  x = s32[1024] reverse(p), dimensions={0}
  y = s32[1024] reverse(a), dimensions={0}
  ROOT r1 = s32[1024] multiply(x, y)
}
ENTRY e {
  x = s32[1024] parameter(0)
  y = s32[1024] parameter(1)
  p = s32[1024] fusion(x), kind=kLoop, calls=fa
  f = (s32[1024], s32[1024]) fusion(p, y), kind=kLoop, calls=fc
  f0 = s32[1024] get-tuple-element(f), index=0
  f1 = s32[1024] get-tuple-element(f), index=1
  ROOT r = s32[1024] fusion(f0, f1), kind=kLoop, calls=fd
})",
        3);
}

TEST(GpuProgram, ChoosesByIndexAlsoAgainstTheInitialValue) {
  Check(R"(HloModule m
sel {
  av = s32[] parameter(0)
  ai = s32[] parameter(1)
  bv = s32[] parameter(2)
  bi = s32[] parameter(3)
  g = pred[] compare(av, bv), direction=GT
  v = s32[] select(g, av, bv)
  i = s32[] select(g, ai, bi)
  ROOT t = (s32[], s32[]) tuple(v, i)
}
ENTRY e {
  n = s32[128] iota(), iota_dimension=0
  five = s32[] constant(5)
  fb = s32[128] broadcast(five), dimensions={}
  eq = pred[128] compare(n, fb), direction=EQ
  z = s32[] constant(0)
  m = s32[] constant(-1)
  x = s32[] parameter(0)
  least = s32[] minimum(x, z)
  zb = s32[128] broadcast(least), dimensions={}
  mb = s32[128] broadcast(m), dimensions={}
  v = s32[128] select(eq, zb, mb)
  ROOT r = (s32[], s32[]) reduce(v, n, z, m), dimensions={0}, to_apply=sel
})",
        1);
}

TEST(GpuProgram, ReducersWithConversionsKeepTheirMeaning) {
  Check(R"(HloModule m
add {
  a = s8[] parameter(0)
  b = s8[] parameter(1)
  fa = f32[] convert(a)
  fb = f32[] convert(b)
  s = f32[] add(fa, fb)
  ROOT r = s8[] convert(s)
}
ENTRY e {
  x = s8[64] parameter(0)
  n = s8[] constant(90)
  nb = s8[64] broadcast(n), dimensions={}
  y = s8[64] add(x, nb)
  one = s8[] constant(1)
  ROOT r = s8[] reduce(y, one), dimensions={0}, to_apply=add
})",
        1);
}

TEST(GpuProgram, SharesMemoryAmongReductions) {
  Check(R"(HloModule m
add {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] add(a, b)
}
ENTRY e {
  x = f64[16384] parameter(0)
  zero = f64[] constant(0)
  c0 = f64[] constant(1)
  b0 = f64[16384] broadcast(c0), dimensions={}
  m0 = f64[16384] add(x, b0)
  q0 = f64[16384] multiply(m0, m0)
  r0 = f64[] reduce(q0, zero), dimensions={0}, to_apply=add
  c1 = f64[] constant(2)
  b1 = f64[16384] broadcast(c1), dimensions={}
  m1 = f64[16384] add(x, b1)
  q1 = f64[16384] multiply(m1, m1)
  r1 = f64[] reduce(q1, zero), dimensions={0}, to_apply=add
  s1 = f64[] add(r0, r1)
  c2 = f64[] constant(3)
  b2 = f64[16384] broadcast(c2), dimensions={}
  m2 = f64[16384] add(x, b2)
  q2 = f64[16384] multiply(m2, m2)
  r2 = f64[] reduce(q2, zero), dimensions={0}, to_apply=add
  s2 = f64[] add(s1, r2)
  c3 = f64[] constant(4)
  b3 = f64[16384] broadcast(c3), dimensions={}
  m3 = f64[16384] add(x, b3)
  q3 = f64[16384] multiply(m3, m3)
  r3 = f64[] reduce(q3, zero), dimensions={0}, to_apply=add
  s3 = f64[] add(s2, r3)
  c4 = f64[] constant(5)
  b4 = f64[16384] broadcast(c4), dimensions={}
  m4 = f64[16384] add(x, b4)
  q4 = f64[16384] multiply(m4, m4)
  r4 = f64[] reduce(q4, zero), dimensions={0}, to_apply=add
  s4 = f64[] add(s3, r4)
  c5 = f64[] constant(6)
  b5 = f64[16384] broadcast(c5), dimensions={}
  m5 = f64[16384] add(x, b5)
  q5 = f64[16384] multiply(m5, m5)
  r5 = f64[] reduce(q5, zero), dimensions={0}, to_apply=add
  s5 = f64[] add(s4, r5)
  c6 = f64[] constant(7)
  b6 = f64[16384] broadcast(c6), dimensions={}
  m6 = f64[16384] add(x, b6)
  q6 = f64[16384] multiply(m6, m6)
  r6 = f64[] reduce(q6, zero), dimensions={0}, to_apply=add
  s6 = f64[] add(s5, r6)
  c7 = f64[] constant(8)
  b7 = f64[16384] broadcast(c7), dimensions={}
  m7 = f64[16384] add(x, b7)
  q7 = f64[16384] multiply(m7, m7)
  r7 = f64[] reduce(q7, zero), dimensions={0}, to_apply=add
  s7 = f64[] add(s6, r7)
  c8 = f64[] constant(9)
  b8 = f64[16384] broadcast(c8), dimensions={}
  m8 = f64[16384] add(x, b8)
  q8 = f64[16384] multiply(m8, m8)
  r8 = f64[] reduce(q8, zero), dimensions={0}, to_apply=add
  s8 = f64[] add(s7, r8)
  c9 = f64[] constant(10)
  b9 = f64[16384] broadcast(c9), dimensions={}
  m9 = f64[16384] add(x, b9)
  q9 = f64[16384] multiply(m9, m9)
  r9 = f64[] reduce(q9, zero), dimensions={0}, to_apply=add
  s9 = f64[] add(s8, r9)
  c10 = f64[] constant(11)
  b10 = f64[16384] broadcast(c10), dimensions={}
  m10 = f64[16384] add(x, b10)
  q10 = f64[16384] multiply(m10, m10)
  r10 = f64[] reduce(q10, zero), dimensions={0}, to_apply=add
  s10 = f64[] add(s9, r10)
  c11 = f64[] constant(12)
  b11 = f64[16384] broadcast(c11), dimensions={}
  m11 = f64[16384] add(x, b11)
  q11 = f64[16384] multiply(m11, m11)
  r11 = f64[] reduce(q11, zero), dimensions={0}, to_apply=add
  s11 = f64[] add(s10, r11)
  ROOT r = f64[] negate(s11)
})",
        1, 0, 1e-9);
}

TEST(GpuProgram, EvaluatesTheRestOnTheHost) {
  Check(R"(HloModule m
ENTRY e {
  zero = f32[] constant(0)
  one = f32[] constant(1)
  x = f32[50] rng(zero, one), distribution=rng_uniform
  b = f32[50] broadcast(zero), dimensions={}
  ROOT r = pred[50] compare(x, b), direction=GE
})",
        1, 1);
}

}  // namespace
}  // namespace backplane::hip
