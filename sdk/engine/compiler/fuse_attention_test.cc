#include "sdk/engine/compiler/fuse_attention.h"

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

const char kReducers[] = R"(
max_f32 { p = f32[] parameter(0) q = f32[] parameter(1) ROOT m = f32[] maximum(p, q) }
sum_f32 { p = f32[] parameter(0) q = f32[] parameter(1) ROOT m = f32[] add(p, q) }
max_bf16 { p = bf16[] parameter(0) q = bf16[] parameter(1) ROOT m = bf16[] maximum(p, q) }
sum_bf16 { p = bf16[] parameter(0) q = bf16[] parameter(1) ROOT m = bf16[] add(p, q) }
max_f16 { p = f16[] parameter(0) q = f16[] parameter(1) ROOT m = f16[] maximum(p, q) }
sum_f16 { p = f16[] parameter(0) q = f16[] parameter(1) ROOT m = f16[] add(p, q) }
max_f64 { p = f64[] parameter(0) q = f64[] parameter(1) ROOT m = f64[] maximum(p, q) }
sum_f64 { p = f64[] parameter(0) q = f64[] parameter(1) ROOT m = f64[] add(p, q) }
)";

// Whether the compile log has an attention.
bool IsFused(const std::vector<std::string>& log) {
  for (const std::string& line : log) {
    if (absl::StrContains(line, ": attention: ")) return true;
  }
  return false;
}

std::vector<std::string> Log(const std::string& program) {
  std::string error;
  std::vector<std::string> log = GetCompileLog(absl::StrCat("HloModule m\n", kReducers, program), &error);
  EXPECT_EQ(error, "");
  return log;
}

// softmax(s) over the last dimension of an array of type T and dimensions [D,k], [D]. Result: p.
std::string Softmax(const std::string& type, const std::string& dims, int64_t keys, int rank) {
  std::vector<int> all;
  for (int d = 0; d + 1 < rank; ++d) all.push_back(d);
  return absl::StrReplaceAll(
      R"(
  low = T[] constant(-inf)
  m0 = T[D] reduce(s, low), dimensions={LAST}, to_apply=max_T
  lows = T[D] broadcast(low), dimensions={}
  m1 = T[D] maximum(lows, m0)
  m2 = T[D,K] broadcast(m1), dimensions={ALL}
  d = T[D,K] subtract(s, m2)
  e = T[D,K] exponential(d)
  zero = T[] constant(0)
  t0 = T[D] reduce(e, zero), dimensions={LAST}, to_apply=sum_T
  t1 = T[D,K] broadcast(t0), dimensions={ALL}
  p = T[D,K] divide(e, t1)
)",
      {{"T", type},
       {"D", dims},
       {"K", absl::StrCat(keys)},
       {"LAST", absl::StrCat(rank - 1)},
       {"ALL", absl::StrJoin(all, ",")}});
}

// Attention of f32[2,3,40,8] and keys of the same shape, with replacements in its text.
std::string Plain(const std::vector<std::pair<absl::string_view, std::string>>& changes = {}) {
  const std::string changed = absl::StrReplaceAll(absl::StrCat(R"(ENTRY main {
  q = f32[2,3,40,8] parameter(0)
  k = f32[2,3,40,8] parameter(1)
  v = f32[2,3,40,8] parameter(2)
  s0 = f32[2,3,40,40] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  s = SCORES
)",
                                                               Softmax("f32", "2,3,40", 40, 4), R"(
  y = f32[2,3,40,8] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  ROOT r = RESULT
})"),
                                                  changes);
  return absl::StrReplaceAll(changed, {{"SCORES", "f32[2,3,40,40] reshape(s0)"}, {"RESULT", "f32[2,3,40,8] copy(y)"}});
}

TEST(FuseAttentionTest, FusesPlainAttention) { EXPECT_TRUE(IsFused(Log(Plain()))); }

// Beside the large term most of what distinguishes the scores is lost.
TEST(FuseAttentionTest, RoundsScoresThatAreNarrowed) {
  for (const char* narrow : {"bf16", "f16"}) {
    const std::string program = Plain({{"  s = SCORES", absl::StrReplaceAll(R"(  c = f32[] constant(-10000)
  cs = f32[2,3,40,40] broadcast(c), dimensions={}
  s1 = f32[2,3,40,40] add(s0, cs)
  s2 = T[2,3,40,40] convert(s1)
  s = f32[2,3,40,40] convert(s2)
)",
                                                                            {{"T", narrow}})}});
    EXPECT_TRUE(IsFused(Log(program)));
    ProgramRunOptions options;
    options.tolerance = 1e-4;
    EXPECT_EQ(ProgramDifference(absl::StrCat("HloModule m\n", kReducers, program), options), "") << narrow;
  }
}

TEST(FuseAttentionTest, LeavesOtherUsersTheirValues) {
  // The probabilities, the exponentials, the scores or the maximum are results as well.
  for (const char* other :
       {"f32[2,3,40,40] p", "f32[2,3,40,40] e", "f32[2,3,40,40] s0", "f32[2,3,40] m1", "f32[2,3,40] t0"}) {
    const std::string shape(other, std::string(other).find(' '));
    const std::string name = std::string(other).substr(std::string(other).find(' ') + 1);
    const std::string result = absl::StrCat("(f32[2,3,40,8], ", shape, ") tuple(y, ", name, ")");
    EXPECT_FALSE(IsFused(Log(Plain({{"RESULT", result}})))) << other;
  }
}

TEST(FuseAttentionTest, LeavesWhatIsNoSoftmaxOverTheKeys) {
  // Over the queries.
  EXPECT_FALSE(
      IsFused(Log(Plain({{"dimensions={3}, to_apply", "dimensions={2}, to_apply"}, {"={0,1,2}", "={0,1,3}"}}))));
  // The sum is of other values; the maximum is a minimum; a sum of two maxima.
  EXPECT_FALSE(IsFused(Log(Plain({{"reduce(e, zero)", "reduce(d, zero)"}}))));
  EXPECT_FALSE(IsFused(Log(Plain({{"constant(0)", "constant(1)"}}))));
  EXPECT_FALSE(IsFused(Log(Plain({{"constant(-inf)", "constant(-5)"}}))));
  EXPECT_FALSE(IsFused(Log(Plain({{"m1 = f32[2,3,40] maximum(lows, m0)", "m1 = f32[2,3,40] add(m0, m0)"}}))));
  EXPECT_FALSE(IsFused(Log(Plain({{"exponential(d)", "cosine(d)"}}))));
  // Probabilities that change before they meet the values.
  EXPECT_FALSE(
      IsFused(Log(Plain({{"dot(p, v)", "dot(p2, v)"}, {"  y = ", "  p2 = f32[2,3,40,40] multiply(p, p)\n  y = "}}))));
  // An operation on the scores that is none of those.
  EXPECT_FALSE(IsFused(Log(Plain({{"SCORES", "f32[2,3,40,40] sine(s0)"}}))));
  // The values are combined over the queries.
  EXPECT_FALSE(
      IsFused(Log(Plain({{"dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}",
                          "dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}"}}))));
}

TEST(FuseAttentionTest, LeavesOtherTypesAndFewQueries) {
  const std::string f64 = absl::StrReplaceAll(Plain(), {{"f32", "f64"}});
  EXPECT_FALSE(IsFused(Log(f64)));
  const std::string few = absl::StrCat(R"(ENTRY main {
  q = f32[6,1,64] parameter(0)
  k = f32[6,256,64] parameter(1)
  v = f32[6,256,64] parameter(2)
  s = f32[6,1,256] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
)",
                                       Softmax("f32", "6,1", 256, 3), R"(
  ROOT y = f32[6,1,64] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
})");
  EXPECT_FALSE(IsFused(Log(few)));
}

// A program of some kind, made of parts that are chosen at random.
struct RandomAttention {
  std::string text;
  bool narrow = false;

  explicit RandomAttention(std::mt19937& rng) {
    auto pick = [&](std::initializer_list<int64_t> of) { return *(of.begin() + rng() % of.size()); };
    const std::string type = std::initializer_list<const char*>{"f32", "f32", "bf16", "f16"}.begin()[rng() % 4];
    narrow = type != "f32";
    const int64_t b = pick({1, 2}), h = pick({1, 3, 4}), g = rng() % 3 == 0 ? pick({1, 2}) : 0;
    const int64_t n = pick({8, 17, 33, 40}), t = pick({16, 31, 64, 100}), d = pick({1, 4, 8, 20}), w = pick({3, 8, 16});
    const bool by_token = rng() % 2 == 0;  // [b, t, h, d], else [b, h, t, d]
    // With g: each head of the keys serves g heads of the queries.
    const std::string gd = g > 0 ? absl::StrCat(g, ",") : "";
    auto shape = [&](int64_t rows, int64_t cols, bool grouped) {
      const std::string groups = grouped ? gd : "";
      return by_token ? absl::StrCat(type, "[", b, ",", rows, ",", h, ",", groups, cols, "]")
                      : absl::StrCat(type, "[", b, ",", h, ",", groups, rows, ",", cols, "]");
    };
    const int query_rank = g > 0 ? 5 : 4;
    const int batch = by_token ? 2 : 1;
    absl::StrAppend(&text, "HloModule m\n", kReducers, "ENTRY main {\n  q = ", shape(n, d, true),
                    " parameter(0)\n  k = ", shape(t, d, false), " parameter(1)\n  v = ", shape(t, w, false),
                    " parameter(2)\n");
    // Scores: [b, h, then the free dimensions of the queries in their order, t].
    std::string score_dims = absl::StrCat(b, ",", h, ",");
    if (g > 0 && by_token) absl::StrAppend(&score_dims, n, ",", g);
    if (g > 0 && !by_token) absl::StrAppend(&score_dims, g, ",", n);
    if (g == 0) absl::StrAppend(&score_dims, n);
    const int rank = query_rank;
    const int query_dim = g > 0 && !by_token ? 3 : 2;
    const std::string scores = absl::StrCat(type, "[", score_dims, ",", t, "]");
    absl::StrAppend(&text, "  s0 = ", scores, " dot(q, k), lhs_batch_dims={0,", batch, "}, rhs_batch_dims={0,", batch,
                    "}, lhs_contracting_dims={", query_rank - 1, "}, rhs_contracting_dims={3}\n");
    std::string last = "s0";
    int names = 0;
    auto step = [&](const std::string& expression) {
      const std::string name = absl::StrCat("x", names++);
      absl::StrAppend(&text, "  ", name, " = ", expression, "\n");
      return name;
    };
    int parameters = 3;
    auto constant = [&](const std::string& value) {
      return step(absl::StrCat(scores, " broadcast(", step(absl::StrCat(type, "[] constant(", value, ")")),
                               "), dimensions={}"));
    };
    // An array of the dimensions {batch or not, query or not, key}, broadcast to the scores.
    auto array = [&](const std::string& element) {
      std::vector<int64_t> sizes;
      std::vector<int> dims;
      if (rng() % 2 == 0) sizes.push_back(b), dims.push_back(0);
      if (rng() % 2 == 0) sizes.push_back(n), dims.push_back(query_dim);
      sizes.push_back(t), dims.push_back(rank - 1);
      const std::string p =
          step(absl::StrCat(element, "[", absl::StrJoin(sizes, ","), "] parameter(", parameters++, ")"));
      return step(absl::StrCat(element, "[", score_dims, ",", t, "] broadcast(", p, "), dimensions={",
                               absl::StrJoin(dims, ","), "}"));
    };
    const std::string masked = std::initializer_list<const char*>{"-inf", "-1e4", "0.5", "-3e4"}.begin()[rng() % 4];
    const int count = static_cast<int>(rng() % 4);
    for (int k = 0; k < count; ++k) {
      switch (rng() % 5) {
        case 0:
          last = step(absl::StrCat(scores, " multiply(", last, ", ", constant("0.25"), ")"));
          break;
        case 1:
          last = step(absl::StrCat(scores, " divide(", last, ", ", constant("3"), ")"));
          break;
        case 2:
          last = step(absl::StrCat(scores, " add(", last, ", ", array(type), ")"));
          break;
        case 3: {
          const std::string mask = array("pred");
          last = rng() % 2 == 0 ? step(absl::StrCat(scores, " select(", mask, ", ", last, ", ", constant(masked), ")"))
                                : step(absl::StrCat(scores, " select(", mask, ", ", constant(masked), ", ", last, ")"));
          break;
        }
        default: {
          const std::string i = step(absl::StrCat("s32[", n, ",", t, "] iota(), iota_dimension=0")),
                            j = step(absl::StrCat("s32[", n, ",", t, "] iota(), iota_dimension=1"));
          const std::string shift = step(absl::StrCat(
              "s32[", n, ",", t, "] broadcast(",
              step(absl::StrCat("s32[] constant(", static_cast<int64_t>(rng() % 60) - 20, ")")), "), dimensions={}"));
          const std::string moved = step(absl::StrCat("s32[", n, ",", t, "] add(", i, ", ", shift, ")"));
          const char* directions[] = {"GE", "GT", "LE", "LT"};
          const std::string compare =
              step(absl::StrCat("pred[", n, ",", t, "] compare(", rng() % 2 == 0 ? moved + ", " + j : j + ", " + moved,
                                "), direction=", directions[rng() % 4]));
          const std::string mask = step(absl::StrCat("pred[", score_dims, ",", t, "] broadcast(", compare,
                                                     "), dimensions={", query_dim, ",", rank - 1, "}"));
          last = step(absl::StrCat(scores, " select(", mask, ", ", last, ", ", constant(masked), ")"));
        }
      }
    }
    absl::StrAppend(&text, "  s = ", scores, " reshape(", last, ")\n", Softmax(type, score_dims, t, rank));
    // The product with the values, from either side, and a transpose to [b, n, h, g, w].
    std::string free = score_dims.substr(absl::StrCat(b, ",", h, ",").size());
    const int value_rows = by_token ? 1 : 2;
    if (rng() % 2 == 0) {
      absl::StrAppend(&text, "  ROOT y = ", type, "[", score_dims, ",", w, "] dot(p, v), lhs_batch_dims={0,1}, ",
                      "rhs_batch_dims={0,", batch, "}, lhs_contracting_dims={", rank - 1, "}, rhs_contracting_dims={",
                      value_rows, "}\n}\n");
    } else {
      const std::string dims = absl::StrCat(b, ",", h, ",", w, ",", free);
      absl::StrAppend(&text, "  y = ", type, "[", dims, "] dot(v, p), lhs_batch_dims={0,", batch,
                      "}, rhs_batch_dims={0,1}, lhs_contracting_dims={", value_rows, "}, rhs_contracting_dims={",
                      rank - 1, "}\n  ROOT z = ", type, "[", b, ",", free, ",", h, ",", w,
                      "] transpose(y), dimensions={0,", g > 0 ? "3,4,1,2" : "3,1,2", "}\n}\n");
    }
  }
};

TEST(FuseAttentionTest, ComputesRandomAttention) {
  std::mt19937 rng(11);
  int fused = 0;
  constexpr int kPrograms = 150;
  for (int k = 0; k < kPrograms; ++k) {
    const RandomAttention program(rng);
    ProgramRunOptions options;
    options.seed = static_cast<uint32_t>(k + 1);
    options.low = -1;
    options.high = 1;
    options.int_low = 0;
    options.int_high = 1;
    options.stored = k % 10 == 0;
    std::vector<std::string> log;
    options.log = &log;
    ASSERT_EQ(ProgramDifference(program.text, options), "") << program.text;
    fused += IsFused(log);
  }
  EXPECT_GT(fused, kPrograms * 3 / 4);
}

TEST(FuseAttentionTest, KeepsWhatIsNotFinite) {
  std::mt19937 rng(5);
  for (int k = 0; k < 60; ++k) {
    const RandomAttention program(rng);
    if (program.narrow) continue;
    ProgramRunOptions options;
    options.seed = static_cast<uint32_t>(k + 1);
    options.low = -1;
    options.high = 1;
    options.specials = true;
    options.stored = false;
    ASSERT_EQ(ProgramDifference(program.text, options), "") << program.text;
  }
}

// q, k and v are parts of one array; no kernel cuts them out.
TEST(FuseAttentionTest, ReadsPartsOfAnArray) {
  const std::string program = absl::StrCat("HloModule m\n", kReducers, R"(ENTRY main {
  x = f32[1,40,72] parameter(0)
  y0 = f32[1,40,72] sine(x)
  q0 = f32[1,40,24] slice(y0), slice={[0:1], [0:40], [0:24]}
  k0 = f32[1,40,24] slice(y0), slice={[0:1], [0:40], [24:48]}
  v0 = f32[1,40,24] slice(y0), slice={[0:1], [0:40], [48:72]}
  q = f32[1,40,3,8] reshape(q0)
  k = f32[1,40,3,8] reshape(k0)
  v = f32[1,40,3,8] reshape(v0)
  s = f32[1,3,40,40] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
)",
                                           Softmax("f32", "1,3,40", 40, 4), R"(
  y = f32[1,3,40,8] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  z = f32[1,40,3,8] transpose(y), dimensions={0,2,1,3}
  ROOT r = f32[40,24] reshape(z)
})");
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  EXPECT_EQ(ProgramDifference(program, options), "");
  EXPECT_TRUE(IsFused(log));
  int kernels = 0;
  for (const std::string& line : log) kernels += absl::StrContains(line, ": kernel ");
  EXPECT_EQ(kernels, 1) << absl::StrJoin(log, "\n");
}

// Heads of the keys that are repeated by a broadcast and a reshape.
TEST(FuseAttentionTest, ReadsRepeatedHeads) {
  const std::string program = absl::StrCat("HloModule m\n", kReducers, R"(ENTRY main {
  q = f32[1,40,6,8] parameter(0)
  k0 = f32[1,40,2,8] parameter(1)
  v0 = f32[1,40,2,8] parameter(2)
  k1 = f32[1,40,2,3,8] broadcast(k0), dimensions={0,1,2,4}
  v1 = f32[1,40,2,3,8] broadcast(v0), dimensions={0,1,2,4}
  k = f32[1,40,6,8] reshape(k1)
  v = f32[1,40,6,8] reshape(v1)
  s = f32[1,6,40,40] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
)",
                                           Softmax("f32", "1,6,40", 40, 4), R"(
  ROOT y = f32[1,6,40,8] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
})");
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  EXPECT_EQ(ProgramDifference(program, options), "");
  EXPECT_TRUE(IsFused(log));
  for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, ": kernel ")) << line;
}

}  // namespace
}  // namespace backplane::engine
