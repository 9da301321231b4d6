#include "plugins/tpu_emulator/program/fuse_into_kernels.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/eval/evaluator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/program/inline_fusions.h"
#include "plugins/tpu_emulator/program/operation_traits.h"
#include "plugins/tpu_emulator/program/program_testing.h"

namespace backplane::tpu {
namespace {

constexpr char kAdd[] =
    "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n"
    "max { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] maximum(x, y) }\n";

std::string DescribeKernelsOf(absl::string_view entry) {
  const PreparedProgram p = PrepareFromText(absl::StrCat("HloModule m\n", kAdd, entry));
  return p.kernels == nullptr ? "" : DescribeKernels(*p.kernels);
}

TEST(FuseIntoKernels, FusesChainsIntoOneLoop) {
  EXPECT_EQ(DescribeKernelsOf(R"(ENTRY e {
    a = f32[256,256] parameter(0)
    b = f32[256] parameter(1)
    c = f32[256,256] broadcast(b), dimensions={1}
    d = f32[256,256] add(a, c)
    e = f32[256,256] exponential(d)
    ROOT r = f32[256,256] multiply(e, a)
  })"),
            "kLoop: add, exponential, multiply");
}

TEST(FuseIntoKernels, FusesEpilogueAndCheapPrologueIntoProducts) {
  EXPECT_EQ(DescribeKernelsOf(R"(ENTRY e {
    a = f32[256,128] parameter(0)
    w = s8[128,512] parameter(1)
    b = f32[512] parameter(2)
    z = f32[] constant(0)
    wf = f32[128,512] convert(w)
    d = f32[256,512] dot(a, wf), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    bb = f32[256,512] broadcast(b), dimensions={1}
    s = f32[256,512] add(d, bb)
    zz = f32[256,512] broadcast(z), dimensions={}
    ROOT r = f32[256,512] maximum(s, zz)
  })"),
            "kOutput: add, convert, dot, maximum");
  // Costly operations are not recomputed for each window of the product. A product is always in a fusion.
  EXPECT_EQ(DescribeKernelsOf(R"(ENTRY e {
    a = f32[256,128] parameter(0)
    w = f32[128,512] parameter(1)
    t = f32[256,128] tanh(a)
    ROOT d = f32[256,512] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  })"),
            "tanh; kOutput: dot");
  // Two products are two kernels.
  EXPECT_EQ(DescribeKernelsOf(R"(ENTRY e {
    a = f32[256,128] parameter(0)
    w = f32[128,128] parameter(1)
    t = f32[256,128] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    u = f32[256,128] negate(t)
    v = f32[256,128] dot(u, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT x = f32[256,128] add(v, a)
  })"),
            "kOutput: dot, negate; kOutput: add, dot");
}

TEST(FuseIntoKernels, SoftmaxIsThreeKernels) {
  // The maximum; the exponentials and their sum, with the exponentials as a second result; the quotient.
  EXPECT_EQ(DescribeKernelsOf(R"(ENTRY e {
    a = f32[1024,1024] parameter(0)
    i = f32[] constant(-inf)
    z = f32[] constant(0)
    m = f32[1024] reduce(a, i), dimensions={1}, to_apply=max
    mb = f32[1024,1024] broadcast(m), dimensions={0}
    d = f32[1024,1024] subtract(a, mb)
    x = f32[1024,1024] exponential(d)
    s = f32[1024] reduce(x, z), dimensions={1}, to_apply=add
    sb = f32[1024,1024] broadcast(s), dimensions={0}
    ROOT r = f32[1024,1024] divide(x, sb)
  })"),
            "reduce; kInput: exponential, reduce, subtract; kLoop: divide");
}

TEST(FuseIntoKernels, FusesAReductionIntoItsProduct) {
  // Scaled scores and their maxima are one kernel with two results, as in the maker's compiler.
  EXPECT_EQ(DescribeKernelsOf(R"(ENTRY e {
    q = f32[512,64] parameter(0)
    k = f32[512,64] parameter(1)
    i = f32[] constant(-inf)
    h = f32[] constant(0.125)
    d = f32[512,512] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
    hb = f32[512,512] broadcast(h), dimensions={}
    s = f32[512,512] multiply(d, hb)
    m = f32[512] reduce(s, i), dimensions={1}, to_apply=max
    mb = f32[512,512] broadcast(m), dimensions={0}
    x = f32[512,512] subtract(s, mb)
    ROOT e = f32[512,512] exponential(x)
  })"),
            "kOutput: dot, multiply, reduce; kLoop: exponential, subtract");
}

TEST(FuseIntoKernels, RecomputesCheapAndStoresCostlyOperations) {
  constexpr char kText[] = R"(ENTRY e {
    a = f32[1024,1024] parameter(0)
    z = f32[] constant(0)
    x = f32[1024,1024] $op(a)
    s = f32[1024] reduce(x, z), dimensions={1}, to_apply=add
    t = f32[1024] reduce(x, z), dimensions={0}, to_apply=max
    ROOT r = (f32[1024], f32[1024]) tuple(s, t)
  })";
  EXPECT_EQ(DescribeKernelsOf(absl::StrReplaceAll(kText, {{"$op", "negate"}})),
            "kInput: negate, reduce; kInput: negate, reduce");
  EXPECT_EQ(DescribeKernelsOf(absl::StrReplaceAll(kText, {{"$op", "tanh"}})), "kInput: reduce, tanh; reduce");
}

TEST(FuseIntoKernels, DoesNotCreateCycles) {
  // The sort reads x, and the sum reads x and the sort. Fusing x into the sum's kernel would create a cycle.
  const std::string text = DescribeKernelsOf(R"(
  lt { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = pred[] compare(x, y), direction=LT }
  ENTRY e {
    a = f32[1024,1024] parameter(0)
    x = f32[1024,1024] exponential(a)
    s = f32[1024,1024] sort(x), dimensions={1}, to_apply=lt
    r = f32[1024,1024] add(x, s)
    ROOT q = f32[1024,1024] multiply(r, a)
  })");
  EXPECT_EQ(text, "exponential; sort; kLoop: add, multiply");
}

TEST(FuseIntoKernels, FusesInsideLoopsAndBranches) {
  EXPECT_EQ(DescribeKernelsOf(R"(
  cond { s = (s32[], f32[1024]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
         ROOT c = pred[] compare(i, n), direction=LT }
  body { s = (s32[], f32[1024]) parameter(0) i = s32[] get-tuple-element(s), index=0
         x = f32[1024] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o)
         y = f32[1024] multiply(x, x) z = f32[1024] add(y, x) ROOT t = (s32[], f32[1024]) tuple(j, z) }
  ENTRY e { x = f32[1024] parameter(0) o = s32[] constant(0) t = (s32[], f32[1024]) tuple(o, x)
            ROOT w = (s32[], f32[1024]) while(t), condition=cond, body=body })"),
            "kLoop: add, multiply");
}

TEST(FuseIntoKernels, KeepsTiles) {
  const auto keeps = [](std::initializer_list<int64_t> a, std::initializer_list<int64_t> b) {
    return KeepsTiles(Shape(PrimitiveType::kF32, a), Shape(PrimitiveType::kF32, b));
  };
  EXPECT_TRUE(keeps({2, 3, 16, 128}, {6, 16, 128}));
  EXPECT_TRUE(keeps({2, 8, 128}, {16, 128}));
  EXPECT_FALSE(keeps({2, 7, 128}, {14, 128}));
  EXPECT_FALSE(keeps({16, 4, 32}, {16, 128}));
  EXPECT_TRUE(keeps({16, 1, 128}, {16, 128}));
}

// For every form of every operation, the result verifies and computes the same values. Only narrow floats may differ.
TEST(FuseIntoKernels, PreservesEveryOperation) {
  std::ifstream file(BACKPLANE_SOURCE_DIR "/sdk/engine/compiler/testdata/coverage.txt");
  std::string line, name, text;
  std::vector<std::pair<std::string, std::string>> cases;
  while (std::getline(file, line)) {
    if (absl::StartsWith(line, "#")) continue;
    if (!absl::StartsWith(line, "case ")) {
      absl::StrAppend(&text, line, "\n");
      continue;
    }
    if (!name.empty()) cases.emplace_back(name, text);
    name = line.substr(5);
    text.clear();
  }
  if (!name.empty()) cases.emplace_back(name, text);
  for (const OpInfo& info : Operations()) {
    if (!info.Has(kResultAccuracy)) continue;
    cases.emplace_back(absl::StrCat(info.text, " : float"),
                       absl::StrCat("ENTRY e { a = $T[3,21] parameter(0) ROOT r = $T[3,21] ", info.text, "(a) }"));
  }
  ASSERT_GT(cases.size(), 100u);
  int compared = 0;
  for (const auto& [header, body] : cases) {
    const std::string types = std::vector<std::string>(absl::StrSplit(header, " : "))[1];
    const std::vector<std::string> words = absl::StrSplit(types, ' ');
    std::string type = "f32";
    for (const std::string& word : words) {
      if (PrimitiveTypeFromName(word)) type = word;
      if (word == "integer") type = "s32";
      if (word == "complex") type = "c64";
    }
    for (const char* group : {"float", "standard", "inexact", "real", "number", "all", "f32"}) {
      if (std::find(words.begin(), words.end(), group) != words.end()) type = "f32";
    }
    const std::string part(Name(ComplexPart(*PrimitiveTypeFromName(type))));
    const std::string hlo = absl::StrCat(
        "HloModule m\n", absl::StrReplaceAll(body, {{"$T", type}, {"$P", part}, {"$C", type == "f32" ? "c64" : type}}));
    SCOPED_TRACE(absl::StrCat(header, " of ", type));
    std::unique_ptr<Module> original = ParseProgram(hlo);
    ASSERT_NE(original, nullptr);
    const std::vector<Literal> arguments = RandomArguments(*original, 7);
    absl::StatusOr<Literal> wanted = Evaluate(*original, arguments);
    PreparedProgram p = PrepareFromText(hlo);
    if (p.executable == nullptr || !wanted.ok()) continue;
    absl::StatusOr<Literal> got = Evaluate(*p.executable, arguments);
    ASSERT_TRUE(got.ok()) << got.status();
    // The evaluator does not support bitcasts between tiled layouts.
    if (!absl::StrContains(p.kernels->ToString(), " bitcast(")) {
      absl::StatusOr<Literal> kernels = Evaluate(*p.kernels, arguments);
      ASSERT_TRUE(kernels.ok()) << kernels.status();
      EXPECT_TRUE(*got == *kernels) << "the executable does not compute what the kernels do";
    }
    if (!absl::StrContains(hlo, "f16") && !absl::StrContains(hlo, "f8")) {
      EXPECT_TRUE(*got == *wanted) << p.kernels->ToString();
    }
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace backplane::tpu
