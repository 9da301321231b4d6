// Operations of the kernel library in whole programs: what is recognised, and that results are the evaluator's.
#include "sdk/engine/compiler/library_thunks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"
#include "sdk/engine/compiler/sort_comparator.h"

namespace backplane::engine {
namespace {

// ---- Comparators ----

// The keys of a comparator with these parameters, as text; "-" when it is not recognised.
std::string Keys(const std::string& comparator) {
  auto module = ParseHloModule(absl::StrCat("HloModule m ENTRY c { ", comparator, " }"));
  if (!module.ok()) return module.status().ToString();
  const auto keys = ComparatorKeys(*(*module)->entry());
  if (!keys) return "-";
  std::string text;
  for (const SortKey& k : *keys) {
    const char* kinds[] = {"u", "s", "total", "float"};
    absl::StrAppend(&text, text.empty() ? "" : " ", k.operand, k.byte_offset ? absl::StrCat("+", k.byte_offset) : "",
                    ":", kinds[static_cast<int>(k.format.kind)], 8 * k.format.bytes,
                    k.format.descending ? " down" : "");
  }
  return text;
}

// Two parameters of a type.
std::string Two(const std::string& type, const std::string& rest) {
  return absl::StrCat("a = ", type, "[] parameter(0) b = ", type, "[] parameter(1) ", rest);
}

TEST(Comparator, PlainComparisons) {
  EXPECT_EQ(Keys(Two("s32", "ROOT r = pred[] compare(a, b), direction=LT")), "0:s32");
  EXPECT_EQ(Keys(Two("s32", "ROOT r = pred[] compare(a, b), direction=GT")), "0:s32 down");
  EXPECT_EQ(Keys(Two("u8", "ROOT r = pred[] compare(b, a), direction=LT")), "0:u8 down");
  EXPECT_EQ(Keys(Two("pred", "ROOT r = pred[] compare(b, a), direction=GT")), "0:u8");
  EXPECT_EQ(Keys(Two("f64", "ROOT r = pred[] compare(a, b), direction=LT")), "0:float64");
  EXPECT_EQ(Keys(Two("bf16", "ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER")), "0:total16 down");
  EXPECT_EQ(Keys(Two("bf16", "c = f32[] convert(a) d = f32[] convert(b) ROOT r = pred[] compare(c, d), direction=LT")),
            "0:float16");
  EXPECT_EQ(Keys("a = f32[] parameter(0) b = f32[] parameter(1) c = s8[] parameter(2) d = s8[] parameter(3) "
                 "ROOT r = pred[] compare(d, c), direction=GT"),
            "1:s8");
}

// Zeros and NaNs made equal on both sides, as JAX does.
std::string Canonical(const std::string& x, const std::string& type) {
  return absl::StrReplaceAll(
      "Xz = TYPE[] constant(0) Xe = pred[] compare(X, Xz), direction=EQ Xs = TYPE[] select(Xe, Xz, X) "
      "Xn = pred[] compare(X, X), direction=NE Xc = TYPE[] constant(nan) Xk = TYPE[] select(Xn, Xc, Xs) ",
      {{"X", x}, {"TYPE", type}});
}

TEST(Comparator, CanonicalTotalOrder) {
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    const std::string both = Two(type, absl::StrCat(Canonical("a", type), Canonical("b", type)));
    const std::string keys = Keys(absl::StrCat(both, "ROOT r = pred[] compare(ak, bk), direction=LT, type=TOTALORDER"));
    EXPECT_TRUE(absl::StartsWith(keys, "0:float")) << type << " " << keys;
    // Zeros alone: the keys have no such order.
    EXPECT_EQ(Keys(absl::StrCat(both, "ROOT r = pred[] compare(as, bs), direction=LT, type=TOTALORDER")), "-");
    // One side only.
    EXPECT_EQ(Keys(absl::StrCat(both, "ROOT r = pred[] compare(ak, b), direction=LT, type=TOTALORDER")), "-");
  }
}

TEST(Comparator, SeveralKeys) {
  const std::string four =
      "a = s32[] parameter(0) b = s32[] parameter(1) c = u16[] parameter(2) d = u16[] parameter(3) "
      "first = pred[] compare(a, b), direction=LT same = pred[] compare(a, b), direction=EQ "
      "other = pred[] compare(a, b), direction=NE rest = pred[] compare(c, d), direction=GT ";
  EXPECT_EQ(Keys(four + "tie = pred[] and(same, rest) ROOT r = pred[] or(first, tie)"), "0:s32 1:u16 down");
  EXPECT_EQ(Keys(four + "tie = pred[] and(rest, same) ROOT r = pred[] or(tie, first)"), "0:s32 1:u16 down");
  EXPECT_EQ(Keys(four + "ROOT r = pred[] select(same, rest, first)"), "0:s32 1:u16 down");
  EXPECT_EQ(Keys(four + "ROOT r = pred[] select(other, first, rest)"), "0:s32 1:u16 down");
  EXPECT_EQ(Keys(four + "ROOT r = pred[] select(other, rest, first)"), "-");
  EXPECT_EQ(Keys(four + "tie = pred[] and(other, rest) ROOT r = pred[] or(first, tie)"), "-");
  EXPECT_EQ(
      Keys(four +
           "wrong = pred[] compare(c, d), direction=EQ tie = pred[] and(wrong, rest) ROOT r = pred[] or(first, tie)"),
      "-");
}

TEST(Comparator, PartsOfComplexNumbers) {
  EXPECT_EQ(
      Keys(
          Two("c64",
              "x = f32[] real(a) y = f32[] real(b) u = f32[] imag(a) v = f32[] imag(b) "
              "first = pred[] compare(x, y), direction=LT same = pred[] compare(x, y), direction=EQ "
              "rest = pred[] compare(u, v), direction=LT tie = pred[] and(same, rest) ROOT r = pred[] or(first, tie)")),
      "0:float32 0+4:float32");
  EXPECT_EQ(Keys(Two("c64", "x = f32[] real(a) y = f32[] imag(b) ROOT r = pred[] compare(x, y), direction=LT")), "-");
}

TEST(Comparator, AnythingElse) {
  EXPECT_EQ(Keys(Two("s32", "ROOT r = pred[] compare(a, b), direction=LE")), "-");
  EXPECT_EQ(Keys(Two("s32", "ROOT r = pred[] compare(a, a), direction=LT")), "-");
  EXPECT_EQ(Keys(Two("f32", "x = f32[] abs(a) y = f32[] abs(b) ROOT r = pred[] compare(x, y), direction=LT")), "-");
  EXPECT_EQ(Keys(Two("f32", "x = bf16[] convert(a) y = bf16[] convert(b) ROOT r = pred[] compare(x, y), direction=LT")),
            "-");
  EXPECT_EQ(Keys(Two("f8e4m3fn", "ROOT r = pred[] compare(a, b), direction=LT")), "-");
  EXPECT_EQ(Keys("a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) "
                 "ROOT r = pred[] compare(a, d), direction=LT"),
            "-");
}

// ---- Whole programs ----

struct Case {
  const char* name;
  const char* text;    // computations, then the entry
  const char* logged;  // found in the compile log
  double tolerance = 4e-6;
  bool specials = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class LibraryPrograms : public ::testing::TestWithParam<Case> {};

TEST_P(LibraryPrograms, LikeTheEvaluator) {
  const std::string hlo = absl::StrCat("HloModule m\n", GetParam().text);
  ProgramRunOptions options;
  options.tolerance = GetParam().tolerance;
  options.specials = GetParam().specials;
  EXPECT_EQ(ProgramDifference(hlo, options), "");
  std::string error;
  const std::vector<std::string> log = GetCompileLog(hlo, &error);
  EXPECT_EQ(error, "");
  EXPECT_TRUE(absl::StrContains(absl::StrJoin(log, "\n"), GetParam().logged)) << absl::StrJoin(log, "\n");
}

#define LT(T)                            \
  "lt { a = " T "[] parameter(0) b = " T \
  "[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }\n"
#define LT_INT(T) \
  "lt { a = " T "[] parameter(0) b = " T "[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }\n"

constexpr Case kSorts[] = {
    {"f32",
     LT("f32") "ENTRY e { a = f32[3,700] parameter(0) ROOT r = f32[3,700] sort(a), dimensions={1}, is_stable=true, "
               "to_apply=lt }",
     "library: sort by 1 keys", 0, true},
    {"f64_columns",
     LT("f64") "ENTRY e { a = f64[200,5] parameter(0) ROOT r = f64[200,5] sort(a), dimensions={0}, is_stable=true, "
               "to_apply=lt }",
     "library: sort by 1 keys", 0, true},
    {"f16_middle",
     LT("f16") "ENTRY e { a = f16[3,150,4] parameter(0) ROOT r = f16[3,150,4] sort(a), dimensions={1}, is_stable=true, "
               "to_apply=lt }",
     "library: sort by 1 keys", 0, true},
    {"s8", LT_INT("s8") "ENTRY e { a = s8[2000] parameter(0) ROOT r = s8[2000] sort(a), dimensions={0}, to_apply=lt }",
     "library: sort by 1 keys"},
    {"u64",
     LT_INT("u64") "ENTRY e { a = u64[300] parameter(0) ROOT r = u64[300] sort(a), dimensions={0}, to_apply=lt }",
     "library: sort by 1 keys"},
    {"empty",  // a constant
     LT_INT("s32") "ENTRY e { a = s32[0,5] parameter(0) ROOT r = s32[0,5] sort(a), dimensions={1}, to_apply=lt }",
     "passes of common"},
    {"argsort_without_keys",
     "lt { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) ROOT r = pred[] "
     "compare(a, b), direction=LT }\n"
     "ENTRY e { a = s32[300] parameter(0) i = s32[300] iota(), iota_dimension=0 s = (s32[300], s32[300]) sort(a, i), "
     "dimensions={0}, is_stable=true, to_apply=lt "
     "ROOT r = s32[300] get-tuple-element(s), index=1 }",
     "library: sort by 1 keys"},
    {"three_operands_two_keys",
     "lt { a = s32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) e = s16[] "
     "parameter(4) f = s16[] parameter(5) "
     "x = pred[] compare(e, f), direction=GT y = pred[] compare(e, f), direction=EQ z = pred[] compare(a, b), "
     "direction=LT w = pred[] and(y, z) ROOT r = pred[] or(x, w) }\n"
     "ENTRY e { a = s32[2,400] parameter(0) b = f32[2,400] parameter(1) c = s16[2,400] parameter(2) "
     "ROOT s = (s32[2,400], f32[2,400], s16[2,400]) sort(a, b, c), dimensions={1}, is_stable=true, to_apply=lt }",
     "library: sort by 2 keys"},
    {"by_absolute_value",
     "lt { a = f32[] parameter(0) b = f32[] parameter(1) x = f32[] abs(a) y = f32[] abs(b) ROOT r = pred[] compare(x, "
     "y), direction=LT }\n"
     "ENTRY e { a = f32[5,90] parameter(0) ROOT r = f32[5,90] sort(a), dimensions={1}, is_stable=true, to_apply=lt }",
     "library: sort by comparator"},
    {"f8",
     "lt { a = f8e4m3fn[] parameter(0) b = f8e4m3fn[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }\n"
     "ENTRY e { a = f8e4m3fn[70] parameter(0) ROOT r = f8e4m3fn[70] sort(a), dimensions={0}, is_stable=true, "
     "to_apply=lt }",
     "library: sort by comparator"},
    {"comparator_beside_kernels_and_in_a_loop",
     "lt { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) x = s32[] "
     "add(a, c) y = s32[] add(b, d) ROOT r = pred[] compare(x, y), direction=LT }\n"
     "down { a = s32[] parameter(0) b = s32[] parameter(1) seven = s32[] constant(7) x = s32[] and(a, seven) y = s32[] "
     "and(b, seven) ROOT r = pred[] compare(x, y), direction=GT }\n"
     "more { s = (s32[], s32[40]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = "
     "pred[] compare(i, n), direction=LT }\n"
     "body { s = (s32[], s32[40]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = s32[40] "
     "get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) "
     "y = s32[40] sort(x), dimensions={0}, is_stable=true, to_apply=down k = s32[40] iota(), iota_dimension=0 z = "
     "s32[40] add(y, k) ROOT r = (s32[], s32[40]) tuple(j, z) }\n"
     "ENTRY e { a = s32[40] parameter(0) b = s32[40] parameter(1) p = (s32[40], s32[40]) sort(a, b), dimensions={0}, "
     "is_stable=true, to_apply=lt "
     "u = s32[40] get-tuple-element(p), index=0 zero = s32[] constant(0) t = (s32[], s32[40]) tuple(zero, u) w = "
     "(s32[], s32[40]) while(t), condition=more, body=body "
     "ROOT r = s32[40] get-tuple-element(w), index=1 }",
     "library: sort by comparator"},
};
INSTANTIATE_TEST_SUITE_P(Sort, LibraryPrograms, ::testing::ValuesIn(kSorts),
                         [](const auto& i) { return i.param.name; });

constexpr Case kTopKs[] = {
    {"f32", "ENTRY e { a = f32[3,800] parameter(0) ROOT r = (f32[3,9], s32[3,9]) topk(a), k=9, largest=true }",
     "library: top 9 of 800", 0, true},
    {"bf16_smallest",
     "ENTRY e { a = bf16[800] parameter(0) ROOT r = (bf16[20], s32[20]) topk(a), k=20, largest=false }",
     "library: top 20", 0, true},
    {"u16_all", "ENTRY e { a = u16[2,30] parameter(0) ROOT r = (u16[2,30], s32[2,30]) topk(a), k=30, largest=true }",
     "library: top 30"},
    {"s64", "ENTRY e { a = s64[1000] parameter(0) ROOT r = (s64[3], s32[3]) topk(a), k=3, largest=true }",
     "library: top 3"},
};
INSTANTIATE_TEST_SUITE_P(TopK, LibraryPrograms, ::testing::ValuesIn(kTopKs),
                         [](const auto& i) { return i.param.name; });

constexpr Case kBits[] = {
    {"threefry_u8",
     "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u8[3,5]) rng-bit-generator(s), algorithm=rng_three_fry }",
     "library: threefry"},
    {"threefry_u32",
     "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u32[5,6,7]) rng-bit-generator(s), algorithm=rng_three_fry }",
     "library: threefry"},
    {"threefry_u64",
     "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u64[70]) rng-bit-generator(s), algorithm=rng_three_fry }",
     "library: threefry"},
    {"philox_u16",
     "ENTRY e { s = u64[3] parameter(0) ROOT r = (u64[3], u16[70]) rng-bit-generator(s), algorithm=rng_philox }",
     "library: philox"},
    {"philox_two_words",
     "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u32[3,7]) rng-bit-generator(s), algorithm=rng_philox }",
     "library: philox"},
    {"default_u64",
     "ENTRY e { s = u32[4] parameter(0) ROOT r = (u32[4], u64[300]) rng-bit-generator(s), algorithm=rng_default }",
     "library: philox"},
    // Uniform numbers between equal bounds: the one program with `rng` that has a certain result.
    {"rng_of_no_width",
     "ENTRY e { l = s32[] constant(4) h = s32[] constant(5) ROOT r = s32[60] rng(l, h), distribution=rng_uniform }",
     "library: uniform numbers"},
    {"rng_of_no_deviation",
     "ENTRY e { m = f32[] constant(4) d = f32[] constant(0) ROOT r = f32[60] rng(m, d), distribution=rng_normal }",
     "library: normal numbers"},
};
INSTANTIATE_TEST_SUITE_P(Random, LibraryPrograms, ::testing::ValuesIn(kBits),
                         [](const auto& i) { return i.param.name; });

constexpr Case kFfts[] = {
    {"fft", "ENTRY e { a = c64[3,30] parameter(0) ROOT r = c64[3,30] fft(a), fft_type=FFT, fft_length={30} }",
     "library: fft of 3 x 30", 1e-5},
    {"ifft3",
     "ENTRY e { a = c128[2,3,4,5] parameter(0) ROOT r = c128[2,3,4,5] fft(a), fft_type=IFFT, fft_length={3,4,5} }",
     "library: fft of 2 x 3 x 4 x 5", 1e-5},
    {"rfft2", "ENTRY e { a = f32[2,6,9] parameter(0) ROOT r = c64[2,6,5] fft(a), fft_type=RFFT, fft_length={6,9} }",
     "library: fft of 2 x 6 x 9", 1e-5},
    {"irfft2", "ENTRY e { a = c64[6,5] parameter(0) ROOT r = f32[6,8] fft(a), fft_type=IRFFT, fft_length={6,8} }",
     "library: fft of 1 x 6 x 8", 1e-5},
};
INSTANTIATE_TEST_SUITE_P(Fft, LibraryPrograms, ::testing::ValuesIn(kFfts), [](const auto& i) { return i.param.name; });

// A small multiple of any matrix, with a large diagonal, is well conditioned.
#define DOMINANT(T, n, scale)                                                                                   \
  "x = " T "[2," n "," n "] parameter(0) f = " T "[] constant(" scale ") fb = " T "[2," n "," n                 \
  "] broadcast(f), dimensions={} "                                                                              \
  "y = " T "[2," n "," n "] multiply(x, fb) i = s32[2," n "," n "] iota(), iota_dimension=1 j = s32[2," n "," n \
  "] iota(), iota_dimension=2 "                                                                                 \
  "d = pred[2," n "," n "] compare(i, j), direction=EQ t = " T "[] constant(2) tb = " T "[2," n "," n           \
  "] broadcast(t), dimensions={} "                                                                              \
  "a = " T "[2," n "," n "] select(d, tb, y) "

constexpr Case kFactors[] = {
    {"cholesky_f32", "ENTRY e { " DOMINANT("f32", "40", "0.01") "ROOT r = f32[2,40,40] cholesky(a), lower=true }",
     "library: cholesky of 2 x 40", 1e-5},
    {"cholesky_f64_upper",
     "ENTRY e { " DOMINANT("f64", "21", "0.02") "ROOT r = f64[2,21,21] cholesky(a), lower=false }",
     "library: cholesky of 2 x 21", 1e-5},
    {"cholesky_c64", "ENTRY e { " DOMINANT("c64", "20", "(0.02, 0)") "ROOT r = c64[2,20,20] cholesky(a), lower=true }",
     "library: cholesky of 2 x 20", 1e-5},
    {"not_positive", "ENTRY e { a = f32[2,6,6] parameter(0) ROOT r = f32[2,6,6] cholesky(a), lower=true }",
     "library: cholesky of 2 x 6"},
    {"solve_left",
     "ENTRY e { " DOMINANT("f32", "40",
                           "0.01") "b = f32[2,40,7] parameter(1) ROOT r = f32[2,40,7] triangular-solve(a, b), "
                                   "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE }",
     "library: triangular solve of 2 x 40 for 7", 1e-5},
    {"solve_right_unit",
     "ENTRY e { " DOMINANT("f64", "9",
                           "0.05") "b = f64[2,11,9] parameter(1) ROOT r = f64[2,11,9] triangular-solve(a, b), "
                                   "left_side=false, lower=false, unit_diagonal=true, transpose_a=TRANSPOSE }",
     "library: triangular solve of 2 x 9 for 11", 1e-5},
    {"solve_adjoint",
     "ENTRY e { " DOMINANT("c128", "9",
                           "(0.05, 0.01)") "b = c128[2,9,1] parameter(1) ROOT r = c128[2,9,1] triangular-solve(a, b), "
                                           "left_side=true, lower=true, unit_diagonal=false, transpose_a=ADJOINT }",
     "library: triangular solve of 2 x 9 for 1", 1e-5},
};
INSTANTIATE_TEST_SUITE_P(Factors, LibraryPrograms, ::testing::ValuesIn(kFactors),
                         [](const auto& i) { return i.param.name; });

TEST(LibraryLog, NamesTheKernelOfAWiderType) {
  std::string error;
  const std::vector<std::string> log = GetCompileLog(
      "HloModule m ENTRY e { a = f8e5m2[40] parameter(0) ROOT r = (f8e5m2[2], s32[2]) topk(a), k=2, largest=true }",
      &error);
  EXPECT_EQ(error, "");
  EXPECT_TRUE(absl::StrContains(absl::StrJoin(log, "\n"), "library: top 2 of 40")) << absl::StrJoin(log, "\n");
  EXPECT_FALSE(absl::StrContains(absl::StrJoin(log, "\n"), "interpreted"));
}

}  // namespace
}  // namespace backplane::engine
