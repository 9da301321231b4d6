// Attention as one kernel against the evaluator: random programs of many forms on the host, with the matrix products of
// NVIDIA's GPUs modelled there, and as machine code of AMD's GPUs.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

const char kReducers[] = R"(
max_f32 { p = f32[] parameter(0) q = f32[] parameter(1) ROOT m = f32[] maximum(p, q) }
sum_f32 { p = f32[] parameter(0) q = f32[] parameter(1) ROOT m = f32[] add(p, q) }
)";

struct Form {
  std::string type = "f32";      // of all arguments and the result
  int64_t batch = 2, heads = 2;  // of the keys
  int64_t group = 0;             // of queries' heads that share one of the keys; 0: no such dimension
  int64_t queries = 40, keys = 40, depth = 16, width = 16;
  bool by_token = false;        // arguments [batch, token, head, depth], else [batch, head, token, depth]
  bool values_first = false;    // the second product has the values on its left
  bool transposes = false;      // the result is transposed to [batch, query, head, group, width]
  bool narrow_scores = false;   // the first product is rounded to the type
  bool joined = false;          // queries, keys and values are parts of one array (no group, as many queries as keys)
  bool same_values = false;     // the keys are the values, too
  bool infinite_value = false;  // of the last key
  bool keeps_weights = false;   // the probabilities are a result as well
  std::string steps;            // letters: s scale, d divide, b bias, B narrow bias of keys, c causal, l local,
                                // m mask as an argument, M its negation, k a mask of keys as a constant, n a rounding
  std::string hidden = "-inf";  // the score of what a mask hides
};

// The text of a program. All scores are [batch, head, queries and groups in their order, key].
std::string TextOf(const Form& f) {
  std::string text = absl::StrCat("HloModule m\n", kReducers, "ENTRY e {\n");
  int names = 0, parameters = 0;
  auto add = [&](const std::string& expression) {
    const std::string name = absl::StrCat("x", names++);
    absl::StrAppend(&text, "  ", name, " = ", expression, "\n");
    return name;
  };
  auto parameter = [&](const std::string& shape) { return add(absl::StrCat(shape, " parameter(", parameters++, ")")); };
  const std::string g = f.group > 0 ? absl::StrCat(f.group, ",") : "";
  auto shape = [&](int64_t tokens, int64_t columns, const std::string& groups) {
    return f.by_token ? absl::StrCat(f.type, "[", f.batch, ",", tokens, ",", f.heads, ",", groups, columns, "]")
                      : absl::StrCat(f.type, "[", f.batch, ",", f.heads, ",", groups, tokens, ",", columns, "]");
  };
  std::string q, k, v;
  if (f.joined) {
    const int64_t all = f.heads * (2 * f.depth + f.width);
    const std::string x = parameter(absl::StrCat(f.type, "[", f.batch, ",", f.keys, ",", all, "]"));
    int64_t begin = 0;
    for (std::string* part : {&q, &k, &v}) {
      const int64_t columns = part == &v ? f.width : f.depth, end = begin + f.heads * columns;
      const std::string cut =
          add(absl::StrCat(f.type, "[", f.batch, ",", f.keys, ",", f.heads * columns, "] slice(", x,
                           "), slice={[0:", f.batch, "], [0:", f.keys, "], [", begin, ":", end, "]}"));
      *part = add(absl::StrCat(f.type, "[", f.batch, ",", f.keys, ",", f.heads, ",", columns, "] reshape(", cut, ")"));
      if (!f.by_token)
        *part = add(absl::StrCat(shape(f.keys, columns, ""), " transpose(", *part, "), dimensions={0,2,1,3}"));
      begin = end;
    }
  } else {
    q = parameter(shape(f.queries, f.depth, g));
    k = parameter(shape(f.keys, f.depth, ""));
    v = f.same_values ? k : parameter(shape(f.keys, f.width, ""));
  }
  if (f.infinite_value) {
    const std::string dims = shape(f.keys, f.width, "").substr(f.type.size());
    const std::string at = add(absl::StrCat("s32", dims, " iota(), iota_dimension=", f.by_token ? 1 : 2)),
                      n = add(absl::StrCat("s32[] constant(", f.keys - 1, ")")),
                      last = add(absl::StrCat("s32", dims, " broadcast(", n, "), dimensions={}")),
                      is_last = add(absl::StrCat("pred", dims, " compare(", at, ", ", last, "), direction=EQ")),
                      inf = add(absl::StrCat(f.type, "[] constant(inf)")),
                      all = add(absl::StrCat(f.type, dims, " broadcast(", inf, "), dimensions={}"));
    v = add(absl::StrCat(f.type, dims, " select(", is_last, ", ", all, ", ", v, ")"));
  }
  const int rank = f.group > 0 ? 5 : 4, batch = f.by_token ? 2 : 1;
  const int query_dim = f.group > 0 && !f.by_token ? 3 : 2;
  std::string rows = absl::StrCat(f.batch, ",", f.heads, ",");
  if (f.group == 0) absl::StrAppend(&rows, f.queries);
  if (f.group > 0) absl::StrAppend(&rows, f.by_token ? f.queries : f.group, ",", f.by_token ? f.group : f.queries);
  const std::string scores_dims = absl::StrCat(rows, ",", f.keys), scores = absl::StrCat("f32[", scores_dims, "]");
  const std::string product = f.narrow_scores ? absl::StrCat(f.type, "[", scores_dims, "]") : scores;
  std::string s =
      add(absl::StrCat(product, " dot(", q, ", ", k, "), lhs_batch_dims={0,", batch, "}, rhs_batch_dims={0,", batch,
                       "}, lhs_contracting_dims={", rank - 1, "}, rhs_contracting_dims={3}"));
  if (product != scores) s = add(absl::StrCat(scores, " convert(", s, ")"));
  auto constant = [&](const std::string& value) {
    const std::string scalar = add(absl::StrCat("f32[] constant(", value, ")"));
    return add(absl::StrCat(scores, " broadcast(", scalar, "), dimensions={}"));
  };
  auto broadcast = [&](const std::string& type, const std::string& x, const std::string& dims) {
    return add(absl::StrCat(type, "[", scores_dims, "] broadcast(", x, "), dimensions={", dims, "}"));
  };
  auto hide = [&](const std::string& mask, bool keeps) {
    const std::string other = constant(f.hidden);
    s = add(absl::StrCat(scores, " select(", mask, ", ", keeps ? s : other, ", ", keeps ? other : s, ")"));
  };
  auto compare = [&](int64_t shift, const std::string& direction) {
    const std::string grid = absl::StrCat("[", f.queries, ",", f.keys, "]");
    const std::string i = add(absl::StrCat("s32", grid, " iota(), iota_dimension=0")),
                      j = add(absl::StrCat("s32", grid, " iota(), iota_dimension=1")),
                      n = add(absl::StrCat("s32[] constant(", shift, ")")),
                      all = add(absl::StrCat("s32", grid, " broadcast(", n, "), dimensions={}")),
                      moved = add(absl::StrCat("s32", grid, " add(", i, ", ", all, ")"));
    const std::string mask = add(absl::StrCat("pred", grid, " compare(", moved, ", ", j, "), direction=", direction));
    return broadcast("pred", mask, absl::StrCat(query_dim, ",", rank - 1));
  };
  for (const char step : f.steps) {
    switch (step) {
      case 's':
        s = add(absl::StrCat(scores, " multiply(", s, ", ", constant("0.25"), ")"));
        break;
      case 'd':
        s = add(absl::StrCat(scores, " divide(", s, ", ", constant("3"), ")"));
        break;
      case 'b': {
        const std::string bias = parameter(absl::StrCat("f32[", f.batch, ",", f.queries, ",", f.keys, "]"));
        s = add(absl::StrCat(scores, " add(", s, ", ",
                             broadcast("f32", bias, absl::StrCat("0,", query_dim, ",", rank - 1)), ")"));
        break;
      }
      case 'B': {
        const std::string bias = parameter(absl::StrCat("bf16[", f.heads, ",", f.keys, "]"));
        const std::string wide = broadcast("bf16", bias, absl::StrCat("1,", rank - 1));
        s = add(absl::StrCat(scores, " add(", add(absl::StrCat(scores, " convert(", wide, ")")), ", ", s, ")"));
        break;
      }
      case 'c':
        hide(compare(f.keys - f.queries, "GE"), true);
        break;
      case 'l':
        hide(compare(11, "LT"), false);
        break;
      case 'm':
      case 'M': {
        const std::string mask = parameter(absl::StrCat("pred[", f.batch, ",", f.queries, ",", f.keys, "]"));
        hide(broadcast("pred", mask, absl::StrCat("0,", query_dim, ",", rank - 1)), step == 'm');
        break;
      }
      case 'k': {
        std::vector<std::string> values;
        for (int64_t n = 0; n < f.keys; ++n) values.push_back(n % 5 == 3 ? "false" : "true");
        const std::string mask = add(absl::StrCat("pred[", f.keys, "] constant({", absl::StrJoin(values, ", "), "})"));
        hide(broadcast("pred", mask, absl::StrCat(rank - 1)), true);
        break;
      }
      case 'n': {
        const std::string narrow = add(absl::StrCat("bf16[", scores_dims, "] convert(", s, ")"));
        s = add(absl::StrCat(scores, " convert(", narrow, ")"));
        break;
      }
      default:
        ADD_FAILURE() << step;
    }
  }
  std::vector<int> kept;
  for (int d = 0; d + 1 < rank; ++d) kept.push_back(d);
  const std::string row_type = absl::StrCat("f32[", rows, "]"), all = absl::StrJoin(kept, ",");
  const std::string low = add("f32[] constant(-inf)"), zero = add("f32[] constant(0)");
  const std::string largest =
      add(absl::StrCat(row_type, " reduce(", s, ", ", low, "), dimensions={", rank - 1, "}, to_apply=max_f32"));
  const std::string difference = add(absl::StrCat(scores, " subtract(", s, ", ", broadcast("f32", largest, all), ")"));
  const std::string e = add(absl::StrCat(scores, " exponential(", difference, ")"));
  const std::string sum =
      add(absl::StrCat(row_type, " reduce(", e, ", ", zero, "), dimensions={", rank - 1, "}, to_apply=sum_f32"));
  std::string p = add(absl::StrCat(scores, " divide(", e, ", ", broadcast("f32", sum, all), ")"));
  if (f.type != "f32") p = add(absl::StrCat(f.type, "[", scores_dims, "] convert(", p, ")"));
  const int value_rows = f.by_token ? 1 : 2;
  const std::string weights_side = absl::StrCat("_batch_dims={0,1}, "),
                    values_side = absl::StrCat("_batch_dims={0,", batch, "}, ");
  const std::string free = rows.substr(absl::StrCat(f.batch, ",", f.heads, ",").size());
  std::string dims =
      f.values_first ? absl::StrCat(f.batch, ",", f.heads, ",", f.width, ",", free) : absl::StrCat(rows, ",", f.width);
  const std::string from = f.values_first ? absl::StrCat(v, ", ", p) : absl::StrCat(p, ", ", v);
  const char *w = f.values_first ? "rhs" : "lhs", *x = f.values_first ? "lhs" : "rhs";
  const std::string y = absl::StrCat("dot(", from, "), lhs", f.values_first ? values_side : weights_side, "rhs",
                                     f.values_first ? weights_side : values_side, w, "_contracting_dims={", rank - 1,
                                     "}, ", x, "_contracting_dims={", value_rows, "}");
  if (f.keeps_weights) {
    const std::string type = absl::StrCat(f.type, "[", scores_dims, "]"), out = absl::StrCat(f.type, "[", dims, "]");
    const std::string result = add(absl::StrCat(out, " ", y));
    absl::StrAppend(&text, "  ROOT r = (", out, ", ", type, ") tuple(", result, ", ", p, ")\n}\n");
    return text;
  }
  if (!f.transposes) {
    absl::StrAppend(&text, "  ROOT y = ", f.type, "[", dims, "] ", y, "\n}\n");
    return text;
  }
  const std::string last = add(absl::StrCat(f.type, "[", dims, "] ", y));
  const int free_dims = f.group > 0 ? 2 : 1, first_free = f.values_first ? 3 : 2;
  const int width_dim = f.values_first ? 2 : rank - 1;
  std::vector<int> order = {0};
  for (int d = 0; d < free_dims; ++d) order.push_back(first_free + d);
  order.push_back(1), order.push_back(width_dim);
  absl::StrAppend(&text, "  ROOT z = ", f.type, "[", f.batch, ",", free, ",", f.heads, ",", f.width, "] transpose(",
                  last, "), dimensions={", absl::StrJoin(order, ","), "}\n}\n");
  return text;
}

bool IsFused(const std::vector<std::string>& log) {
  return absl::StrContains(absl::StrJoin(log, "\n"), ": attention: ");
}

double ToleranceOf(const Form& f) {
  if (f.type != "f32") return f.narrow_scores ? 0.1 : 0.03;
  // A score near the middle of two numbers may be rounded to the other one.
  return absl::StrContains(f.steps, 'n') ? 0.02 : 1e-4;
}

// Returns how many matrix products a machine has computed.
int64_t ExpectFused(const Form& f, const std::string& target) {
  const std::string text = TextOf(f);
  SCOPED_TRACE(text);
  const Compiled compiled = CompileAndCompare(text, target, ToleranceOf(f));
  EXPECT_TRUE(IsFused(compiled.log)) << absl::StrJoin(compiled.log, "\n");
  if (compiled.program == nullptr) return 0;
  // The largest heads are a little too large for WMMA, whose operands take twice the registers.
  const int most = target == "gfx1100" && f.depth > 192 ? 2 : 0;
  for (const KernelResources& k : compiled.program->image().kernels) EXPECT_LE(k.spilled_registers, most) << k.name;
  return compiled.statistics.matrix;
}

class Attention : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, Attention, testing::Values("host", "mma", "gfx942", "gfx1100"));

TEST_P(Attention, OfAllTypesAndSizes) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    ExpectFused({.type = type, .steps = "s"}, GetParam());
    ExpectFused(
        {.type = type, .batch = 1, .heads = 1, .queries = 67, .keys = 131, .depth = 20, .width = 24, .steps = "sc"},
        GetParam());
    ExpectFused(
        {.type = type, .batch = 1, .heads = 1, .queries = 20, .keys = 40, .depth = 256, .width = 256, .steps = "s"},
        GetParam());
  }
}

// A causal mask hides tiles, unless a hidden key counts: by its value, or because a query has no other.
TEST_P(Attention, LeavesOutHiddenKeys) {
  for (const char* hidden : {"-inf", "-1e9", "0.5"}) {
    Form f{.type = "bf16", .batch = 1, .heads = 1, .queries = 130, .keys = 200, .steps = "sl", .hidden = hidden};
    ExpectFused(f, GetParam());
    f.infinite_value = true;
    ExpectFused(f, GetParam());
    f.keys = 100, f.steps = "c";  // the first queries see none
    ExpectFused(f, GetParam());
  }
  if (!absl::StartsWith(GetParam(), "gfx")) return;
  Form f{.type = "bf16", .batch = 1, .heads = 1, .queries = 128, .keys = 128, .steps = "s"};
  const int64_t all = ExpectFused(f, GetParam());
  f.steps = "sc";
  EXPECT_EQ(ExpectFused(f, GetParam()), all * 3 / 4);
  f.infinite_value = true;
  EXPECT_EQ(ExpectFused(f, GetParam()), all);
}

TEST_P(Attention, LeavesOthersTheirValuesAndFewQueries) {
  for (const Form& f :
       {Form{.type = "bf16", .keeps_weights = true, .steps = "sc"}, Form{.type = "f16", .queries = 3}}) {
    const Compiled compiled = CompileAndCompare(TextOf(f), GetParam(), 0.03);
    EXPECT_FALSE(IsFused(compiled.log)) << absl::StrJoin(compiled.log, "\n");
  }
}

// Random programs. The environment variable is for longer runs by hand.
TEST_P(Attention, OfRandomForms) {
  const char* more = std::getenv("ATTENTION_PROGRAMS");
  const bool is_machine = absl::StartsWith(GetParam(), "gfx");
  const int count = more != nullptr ? std::atoi(more) : is_machine ? 6 : 12;
  std::mt19937 rng(more != nullptr ? static_cast<uint32_t>(count) : 3);
  for (int n = 0; n < count; ++n) {
    auto pick = [&](std::initializer_list<int64_t> of) { return *(of.begin() + rng() % of.size()); };
    Form f;
    f.type = std::initializer_list<const char*>{"f32", "bf16", "f16"}.begin()[rng() % 3];
    f.batch = pick({1, 2}), f.heads = pick({1, 2, 3});
    f.queries = pick({16, 17, 33, 64, 70, 130}), f.keys = pick({16, 31, 64, 65, 100, 150});
    f.depth = pick({1, 8, 16, 20, 32, 40, 64, 72, 128}), f.width = pick({1, 5, 8, 16, 24, 64, 80, 128});
    if (is_machine) f.heads = 1, f.batch = 1;
    f.by_token = rng() % 2 == 0, f.values_first = rng() % 2 == 0, f.transposes = rng() % 2 == 0;
    f.narrow_scores = rng() % 4 == 0 && f.type != "f32";
    f.joined = rng() % 4 == 0;
    if (f.joined) f.queries = f.keys;
    f.group = !f.joined && rng() % 3 == 0 ? pick({1, 2}) : 0;
    f.same_values = !f.joined && rng() % 4 == 0;
    if (f.same_values) f.width = f.depth;
    if (f.depth == 1 || f.width == 1) f.same_values = false;
    f.infinite_value = rng() % 8 == 0;
    for (uint32_t k = rng() % 4; k > 0; --k) f.steps += "sdbBclmMkn"[rng() % 10];
    f.hidden = std::initializer_list<const char*>{"-inf", "-1e9", "0.5", "-2.3e38", "nan", "inf"}.begin()[rng() % 6];
    const std::string text = TextOf(f);
    SCOPED_TRACE(text);
    const Compiled compiled = CompileAndCompare(text, GetParam(), ToleranceOf(f));
    ASSERT_NE(compiled.program, nullptr);
    EXPECT_TRUE(f.depth == 1 || IsFused(compiled.log)) << absl::StrJoin(compiled.log, "\n");
    if (HasFailure()) FAIL() << absl::StrJoin(compiled.log, "\n");
  }
}

TEST(AttentionForNvidia, IsAssembledWithoutSpills) {
  if (std::system("ptxas --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no ptxas";
  const std::string path = absl::StrCat(testing::TempDir(), "/attention_test_", getpid());
  for (const char* type : {"bf16", "f32"}) {
    for (const int64_t d : {64, 128, 256}) {
      for (const char* steps : {"s", "sc", "smb"}) {
        const Form f{.type = type, .heads = 32, .queries = 512, .keys = 500, .depth = d, .width = d, .steps = steps};
        auto module = ParseHloModule(TextOf(f));
        ASSERT_TRUE(module.ok()) << module.status();
        NamedValues cost;
        ASSERT_TRUE(RunGpuPipeline(module->get(), {}, &cost, nullptr).ok());
        const auto program = GpuProgram::Build(*std::move(module), *FindGpuTarget("sm_90"), nullptr, nullptr);
        ASSERT_TRUE(program.ok()) << program.status();
        std::ofstream(path + ".ptx") << (*program)->image().bytes;
        ASSERT_EQ(
            std::system(
                absl::StrCat("ptxas -v -arch=sm_90 -o ", path, ".cubin ", path, ".ptx > ", path, ".txt 2>&1").c_str()),
            0);
        std::stringstream said;
        said << std::ifstream(path + ".txt").rdbuf();
        int kernels = 0;
        for (const absl::string_view line : absl::StrSplit(said.str(), '\n')) {
          if (!absl::StrContains(line, "spill")) continue;
          ++kernels;
          EXPECT_TRUE(absl::StrContains(line, " 0 bytes spill stores, 0 bytes spill loads"))
              << type << " " << d << " " << steps << ": " << line;
        }
        EXPECT_GT(kernels, 0) << said.str();
      }
    }
  }
  for (const char* end : {".ptx", ".cubin", ".txt"}) std::remove((path + end).c_str());
}

}  // namespace
}  // namespace backplane::hip
