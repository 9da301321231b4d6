// Reductions, windows, scatters, sorts and maps whose computations build arrays, loop, branch and call further ones:
// all of it is compiled, and gives what the evaluator gives.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/passes/called_arrays_cases.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

// Every second of them, each body and each caller among them: all are held against the evaluator where the passes are
// tested.
std::vector<CalledArraysCase> EverySecond() {
  const std::vector<CalledArraysCase> all = CalledArraysCases();
  std::vector<CalledArraysCase> half;
  for (size_t k = 0; k < all.size(); k += 2) half.push_back(all[k]);
  return half;
}

class CalledArrays : public ::testing::TestWithParam<CalledArraysCase> {};

TEST_P(CalledArrays, AreCompiled) {
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  options.stored = false;
  options.low = -2;
  options.high = 4;
  options.int_low = -2;
  options.int_high = 4;
  EXPECT_EQ(ProgramDifference(GetParam().hlo, options), "");
  for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, "interpreted")) << line;
}

INSTANTIATE_TEST_SUITE_P(Programs, CalledArrays, ::testing::ValuesIn(EverySecond()),
                         [](const auto& info) { return info.param.name; });

// ---- Operations that a library computes, and others that are rare inside of a reducer

struct Rare {
  const char* name;
  const char* helpers;
  const char* body;  // from x and y, f32
  bool random = false;
};

const Rare kRare[] = {
    {"fft", "",
     "b = f32[4] broadcast(x), dimensions={} i = f32[4] iota(), iota_dimension=0 s = f32[4] add(b, i) t = c64[3] "
     "fft(s), fft_type=RFFT, fft_length={4} a = f32[3] abs(t) m = f32[1] slice(a), slice={[1:2]} n = f32[] reshape(m) "
     "ROOT r = f32[] minimum(n, y)"},
    {"cholesky", "",
     "z = f32[] multiply(x, x) o = f32[] constant(2) p = f32[] add(z, o) b = f32[2,2] broadcast(p), dimensions={} k = "
     "f32[2,2] constant({{2,0},{0,3}}) s = f32[2,2] add(b, k) t = f32[2,2] cholesky(s), lower=true m = f32[1,1] "
     "slice(t), slice={[1:2], [0:1]} n = f32[] reshape(m) ROOT r = f32[] minimum(n, y)"},
    {"triangular_solve", "",
     "k = f32[2,2] constant({{2,0},{1,4}}) b = f32[2,1] broadcast(x), dimensions={} t = f32[2,1] triangular-solve(k, "
     "b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE m = f32[1,1] slice(t), slice={[1:2], [0:1]} n = f32[] "
     "reshape(m) ROOT r = f32[] maximum(n, y)"},
    {"top_k", "",
     "a = f32[1] reshape(x) b = f32[1] reshape(y) k = f32[2] constant({0.5, 1.5}) w = f32[4] concatenate(a, k, b), "
     "dimensions={0} t = (f32[2], s32[2]) topk(w), k=2, largest=true v = f32[2] get-tuple-element(t), index=0 m = "
     "f32[1] slice(v), slice={[1:2]} ROOT r = f32[] reshape(m)"},
    {"convolution", "",
     "b = f32[1,1,5] broadcast(x), dimensions={} k = f32[1,1,2] constant({{{0.5, 0.25}}}) t = f32[1,1,4] "
     "convolution(b, k), window={size=2}, dim_labels=bf0_oi0->bf0 m = f32[1,1,1] slice(t), slice={[0:1], [0:1], "
     "[2:3]} n = f32[] reshape(m) ROOT r = f32[] maximum(n, y)"},
    {"scan",
     "step { v = f32[] parameter(0) c = f32[] parameter(1) s = f32[] add(v, c) h = f32[] constant(0.5) t = f32[] "
     "multiply(s, h) ROOT r = (f32[], f32[]) tuple(t, t) }",
     "b = f32[4] broadcast(x), dimensions={} t = (f32[4], f32[]) scan(b, y), dimensions={0}, is_reverse=false, "
     "num_carries=1, to_apply=step v = f32[4] get-tuple-element(t), index=0 m = f32[1] slice(v), slice={[3:4]} ROOT r "
     "= f32[] reshape(m)"},
    {"select_and_scatter",
     "ge { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=GE }\n"
     "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }",
     "b = f32[4] broadcast(x), dimensions={} k = f32[4] constant({1, 3, 2, 0}) w = f32[4] multiply(b, k) u = f32[2] "
     "broadcast(y), dimensions={} z = f32[] constant(0) t = f32[4] select-and-scatter(w, u, z), window={size=2 "
     "stride=2}, select=ge, scatter=sum m = f32[1] slice(t), slice={[1:2]} ROOT r = f32[] reshape(m)"},
    {"bitcast_and_reduce_precision", "",
     "b = f32[2] broadcast(x), dimensions={} p = f32[2] reduce-precision(b), exponent_bits=5, mantissa_bits=10 t = "
     "s32[2] bitcast-convert(p) o = s32[2] constant({1, 0}) a = s32[2] xor(t, o) c = f32[2] bitcast-convert(a) m = "
     "f32[1] slice(c), slice={[1:2]} n = f32[] reshape(m) ROOT r = f32[] maximum(n, y)"},
    {"batch_norm", "",
     "b = f32[3,2] broadcast(x), dimensions={} i = f32[3,2] iota(), iota_dimension=0 s = f32[3,2] multiply(b, i) k = "
     "f32[2] constant({1, 2}) t = (f32[3,2], f32[2], f32[2]) batch-norm-training(s, k, k), epsilon=0.5, "
     "feature_index=1 v = f32[3,2] get-tuple-element(t), index=0 m = f32[1,1] slice(v), slice={[2:3], [1:2]} n = f32[] "
     "reshape(m) ROOT r = f32[] minimum(n, y)"},
    {"random_bits", "",
     "c = u64[] constant(7) a = f32[] abs(x) v = u64[] convert(a) k = u64[1] reshape(v) d = u64[1] reshape(c) s = "
     "u64[2] concatenate(k, d), dimensions={0} t = (u64[2], u32[3]) rng-bit-generator(s), algorithm=rng_three_fry b = "
     "u32[3] get-tuple-element(t), index=1 m = u32[1] slice(b), slice={[1:2]} n = u32[] reshape(m) e = f32[] "
     "convert(n) f = f32[] constant(1e-9) g = f32[] multiply(e, f) ROOT r = f32[] maximum(g, y)"},
    {"random_numbers", "",
     "z = f32[] constant(0) o = f32[] constant(1) t = f32[3] rng(z, o), distribution=rng_uniform m = f32[1] slice(t), "
     "slice={[1:2]} n = f32[] reshape(m) h = f32[] multiply(n, z) s = f32[] add(x, h) ROOT r = f32[] maximum(s, y)"},
};

class RareBodies : public ::testing::TestWithParam<Rare> {};

TEST_P(RareBodies, AreCompiled) {
  for (const char* entry :
       {"a = f32[3,4] parameter(0) z = f32[] parameter(1) ROOT r = f32[3] reduce(a, z), dimensions={1}, to_apply=g",
        "a = f32[7] parameter(0) b = f32[7] parameter(1) ROOT r = f32[7] map(a, b), dimensions={0}, to_apply=g",
        "a = f32[6] parameter(0) z = f32[] parameter(1) ROOT r = f32[6] reduce-window(a, z), window={size=3 pad=1_1}, "
        "to_apply=g"}) {
    const std::string hlo =
        absl::StrCat("HloModule m\n", GetParam().helpers, "\ng { x = f32[] parameter(0) y = f32[] parameter(1) ",
                     GetParam().body, " }\nENTRY e { ", entry, " }\n");
    std::vector<std::string> log;
    ProgramRunOptions options;
    options.log = &log;
    options.stored = false;
    options.tolerance = 1e-4;
    EXPECT_EQ(ProgramDifference(hlo, options), "");
    for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, "interpreted")) << line << hlo;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, RareBodies, ::testing::ValuesIn(kRare),
                         [](const auto& info) { return std::string(info.param.name); });

// The number of steps to 1 has no end from 0, which is what lanes and window positions outside of the array hold.
TEST(CalledLoops, RunOnlyForElementsThatAreThere) {
  for (bool arrays : {false, true}) {
    const std::string body = absl::StrCat(
        "more { s = (s32[], s32[]) parameter(0) n = s32[] get-tuple-element(s), index=0 o = s32[] constant(1) ROOT r = "
        "pred[] compare(n, o), direction=NE }\n"
        "turn { s = (s32[], s32[]) parameter(0) n = s32[] get-tuple-element(s), index=0 k = s32[] "
        "get-tuple-element(s), index=1 o = s32[] constant(1) w = s32[] constant(2) t = s32[] constant(3) h = s32[] "
        "divide(n, w) b = s32[] and(n, o) z = s32[] constant(0) e = pred[] compare(b, z), direction=EQ u = s32[] "
        "multiply(n, t) v = s32[] add(u, o) m = s32[] select(e, h, v) l = s32[] add(k, o) ROOT r = (s32[], s32[]) "
        "tuple(m, l) }\n"
        "steps { x = s32[] parameter(0) y = s32[] parameter(1) s = (s32[], s32[]) tuple(y, x) l = (s32[], s32[]) "
        "while(s), condition=more, body=turn k = s32[] get-tuple-element(l), index=1 ",
        arrays
            ? "b = s32[2] broadcast(k), dimensions={} m = s32[1] slice(b), slice={[0:1]} ROOT r = s32[] reshape(m) }\n"
            : "ROOT r = s32[] add(k, x) }\n");
    for (
        const char* entry :
        {"a = s32[5,3] parameter(0) z = s32[] constant(0) ROOT r = s32[3] reduce(a, z), dimensions={0}, to_apply=steps",
         "a = s32[5,11] parameter(0) z = s32[] constant(0) ROOT r = s32[11] reduce(a, z), dimensions={0}, "
         "to_apply=steps",
         "a = s32[5,3] parameter(0) z = s32[] constant(0) ROOT r = s32[5] reduce(a, z), dimensions={1}, to_apply=steps",
         "a = s32[13] parameter(0) z = s32[] constant(0) ROOT r = s32[15] reduce-window(a, z), window={size=3 "
         "pad=2_2}, "
         "to_apply=steps",
         "a = s32[6,5] parameter(0) b = s32[6,5] parameter(1) ROOT r = s32[6,5] map(a, b), dimensions={0,1}, "
         "to_apply=steps",
         "a = s32[4,5] parameter(0) n = s32[3,1] constant({{1},{7},{1}}) u = s32[3,5] parameter(1) ROOT r = s32[4,5] "
         "scatter(a, n, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
         "index_vector_dim=1, to_apply=steps"}) {
      std::vector<std::string> log;
      ProgramRunOptions options;
      options.log = &log;
      options.int_low = 1;
      options.int_high = 30;
      EXPECT_EQ(ProgramDifference(absl::StrCat("HloModule m\n", body, "ENTRY e { ", entry, " }\n"), options), "");
      for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, "interpreted")) << line;
    }
  }
}

// More elements than are computed at once: in blocks, of which the last overlaps the one before.
TEST(CalledArrays, OfManyElementsAreMadeInBlocks) {
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  options.stored = false;
  EXPECT_EQ(ProgramDifference(R"(HloModule m
    less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=LT }
    f { x = f32[] parameter(0) b = f32[9000] broadcast(x), dimensions={} k = f32[9000] iota(), iota_dimension=0
      s = f32[9000] subtract(b, k) t = f32[9000] sort(s), dimensions={0}, to_apply=less
      m = f32[1] slice(t), slice={[3:4]} ROOT r = f32[] reshape(m) }
    ENTRY e { a = f32[2000] parameter(0) ROOT r = f32[2000] map(a), dimensions={0}, to_apply=f })",
                              options),
            "");
  for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, "interpreted")) << line;
}

// A fusion that no kernel can be is no fusion: its dot, its sort and its reduction are compiled each by itself.
TEST(HostFusions, AreTakenApartWhereNoKernelHoldsThem) {
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  EXPECT_EQ(ProgramDifference(R"(HloModule m
    less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=LT }
    top { p = f32[] parameter(0) q = f32[] parameter(1) b = f32[2] broadcast(q), dimensions={} m = f32[1] slice(b), slice={[1:2]}
      n = f32[] reshape(m) ROOT r = f32[] maximum(p, n) }
    inner { p = f32[4,4] parameter(0) ROOT r = f32[4,4] sort(p), dimensions={1}, to_apply=less }
    fused { p = f32[4,3] parameter(0) q = f32[3,4] parameter(1) d = f32[4,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      s = f32[4,4] fusion(d), kind=kLoop, calls=inner z = f32[] constant(0) m = f32[4] reduce(s, z), dimensions={1}, to_apply=top
      ROOT r = (f32[4,4], f32[4]) tuple(s, m) }
    ENTRY e { a = f32[4,3] parameter(0) b = f32[3,4] parameter(1) f = (f32[4,4], f32[4]) fusion(a, b), kind=kOutput, calls=fused
      s = f32[4,4] get-tuple-element(f), index=0 ROOT r = f32[4,4] negate(s) })",
                              options),
            "");
  for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, "interpreted")) << line;
}

// What no masked form is known for is one step; the rest of the program is compiled.
TEST(DynamicSizes, AreOneStepOfTheEvaluator) {
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  options.int_low = 1;
  options.int_high = 6;
  EXPECT_EQ(ProgramDifference(R"(HloModule m
    add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
    ENTRY e { a = f32[6] parameter(0) n = s32[] parameter(1) b = f32[6] exponential(a) d = f32[<=6] set-dimension-size(b, n), dimensions={0}
      v = f32[<=6] reverse(d), dimensions={0} z = f32[] constant(0) s = f32[] reduce(v, z), dimensions={0}, to_apply=add
      w = f32[6,6] broadcast(s), dimensions={} k = f32[6,6] broadcast(a), dimensions={0} ROOT r = f32[6,6] dot(w, k), lhs_contracting_dims={1}, rhs_contracting_dims={0} })",
                              options),
            "");
  int interpreted = 0;
  for (const std::string& line : log) interpreted += absl::StartsWith(line, "interpreted: ");
  EXPECT_EQ(interpreted, 1);
}

}  // namespace
}  // namespace backplane::engine
