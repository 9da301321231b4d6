// Passes that expand rare operations: their output, and what they refuse.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/eval/evaluator.h"
#include "core/passes/golden.h"
#include "core/passes/isolate_dynamic_sizes.h"
#include "core/passes/passes.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

template <typename P>
void Check(const char* name, const GoldenOptions& options = {}) {
  RunGoldenFile(
      std::string("core/passes/testdata/") + name + ".hlo", [] { return std::make_unique<P>(); }, options);
}

TEST(Expand, Scans) { Check<ExpandScans>("expand-scans"); }
TEST(Expand, Dots) { Check<ExpandDots>("expand-dots"); }
TEST(Expand, Layouts) { Check<DropLayouts>("drop-layouts"); }
TEST(Expand, Loops) { Check<UnrollLoops>("unroll-loops"); }
TEST(Expand, DynamicSizes) {
  GoldenOptions options;
  options.int_low = 1;  // sizes
  options.int_high = 6;
  options.not_evaluated = 1;  // a reshape needs sizes with equal products, which random arguments do not have
  Check<ResolveDynamicSizes>("resolve-dynamic-sizes", options);
}

// A loop counter and the size of a dimension are 32 bits wide.
TEST(Expand, NothingIsCutTo32Bits) {
  auto scan = ParseHloModule(R"(HloModule m
    step { x = s8[] parameter(0) c = s8[] parameter(1) s = s8[] add(x, c) ROOT r = (s8[], s8[]) tuple(s, s) }
    ENTRY e { x = s8[8589934592] parameter(0) c = s8[] parameter(1)
      ROOT r = (s8[8589934592], s8[]) scan(x, c), dimensions={0}, num_carries=1, to_apply=step })");
  ASSERT_TRUE(scan.ok()) << scan.status();
  const absl::Status refused = ExpandScans().Run(scan->get()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  auto size = ParseHloModule(
      "HloModule m ENTRY e { x = s8[8589934592] parameter(0) ROOT n = s32[] get-dimension-size(x), dimensions={0} }");
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(SimplifyAlgebra().Run(size->get()).value_or(true), false) << (*size)->ToString();
}

TEST(DynamicSizes, RefusesWhatCrossesThem) {
  const struct {
    const char *text, *word;
  } cases[] = {
      {"a = f32[6] parameter(0) n = s32[] parameter(1) ROOT d = f32[<=6] set-dimension-size(a, n), dimensions={0}",
       "a result of dynamic size"},
      {"a = f32[<=6] parameter(0) z = f32[] parameter(1) ROOT d = f32[<=6] add(a, a)", "a parameter of dynamic size"},
      {"a = f32[6] parameter(0) n = s32[] parameter(1) d = f32[<=6] set-dimension-size(a, n), dimensions={0} v = "
       "f32[<=6] reverse(d), dimensions={0} "
       "m = s32[] constant(6) ROOT r = f32[6] set-dimension-size(v, m), dimensions={0}",
       "reverse of a dynamic size"},
  };
  for (const auto& c : cases) {
    auto module = ParseHloModule(std::string("HloModule m ENTRY e { ") + c.text + " }");
    ASSERT_TRUE(module.ok()) << module.status();
    EXPECT_TRUE(HasDynamicSizes(**module));
    ResolveDynamicSizes pass;
    const absl::Status refused = pass.Run(module->get()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
    EXPECT_NE(std::string(refused.message()).find(c.word), std::string::npos) << refused;
  }
}

// If a program moves elements across a dynamic dimension, only that part is isolated, in the entry and in a loop.
TEST(DynamicSizes, StandApart) {
  auto module = ParseHloModule(R"(HloModule m
    add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
    more { s = (s32[], f32[6]) parameter(0) n = s32[] get-tuple-element(s), index=0 h = s32[] constant(4) ROOT r = pred[] compare(n, h), direction=LT }
    step { s = (s32[], f32[6]) parameter(0) n = s32[] get-tuple-element(s), index=0 a = f32[6] get-tuple-element(s), index=1
      e = f32[6] multiply(a, a) d = f32[<=6] set-dimension-size(e, n), dimensions={0} v = f32[<=6] reverse(d), dimensions={0}
      z = f32[] constant(0.5) t = f32[] reduce(v, z), dimensions={0}, to_apply=add o = s32[] constant(1) m = s32[] add(n, o)
      w = f32[6] broadcast(t), dimensions={} u = f32[6] subtract(a, w) ROOT r = (s32[], f32[6]) tuple(m, u) }
    ENTRY e { a = f32[6] parameter(0) n = s32[] parameter(1) b = f32[6] negate(a) d = f32[<=6] set-dimension-size(b, n), dimensions={0}
      v = f32[<=6] reverse(d), dimensions={0} z = f32[] constant(0) t = f32[] reduce(v, z), dimensions={0}, to_apply=add
      q = f32[] sine(t) l = s32[] get-dimension-size(v), dimensions={0} k = f32[] convert(l) p = f32[] add(q, k)
      w = f32[6] broadcast(p), dimensions={} c = f32[6] add(w, a) s = (s32[], f32[6]) tuple(n, c)
      f = (s32[], f32[6]) while(s), condition=more, body=step ROOT r = f32[6] get-tuple-element(f), index=1 })");
  ASSERT_TRUE(module.ok()) << module.status();
  const std::vector<Literal> arguments = {Literal::FromValues<float>({6}, {1, -2, 3, 0.5, 5, -1}),
                                          Literal::ScalarInt(PrimitiveType::kS32, 2)};
  const absl::StatusOr<Literal> wanted = Evaluate(**module, arguments);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  ASSERT_TRUE(IsolateDynamicSizes().Run(module->get()).value_or(false));
  ASSERT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module) << (*module)->ToString();
  std::vector<std::string> apart, rest;
  for (const auto& c : (*module)->computations()) {
    int fusions = 0;
    for (const auto& i : c->instructions()) {
      fusions += i->Is(Opcode::kFusion);
      (c->is_fusion() ? apart : rest).push_back(std::string(OpName(i->opcode())));
      EXPECT_FALSE(!c->is_fusion() && i->shape().IsArray() && i->shape().HasDynamicDimensions()) << i->ToString();
    }
    EXPECT_LE(fusions, 1) << c->name();
  }
  // The sine between the uses of the two reductions is on no path between dynamic sizes.
  EXPECT_EQ(std::count(rest.begin(), rest.end(), "sine"), 1) << (*module)->ToString();
  EXPECT_EQ(std::count(apart.begin(), apart.end(), "reverse"), 2) << (*module)->ToString();
  EXPECT_EQ(std::count(rest.begin(), rest.end(), "multiply"), 1) << (*module)->ToString();
  const absl::StatusOr<Literal> got = Evaluate(**module, arguments);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, *wanted);
  EXPECT_EQ(IsolateDynamicSizes().Run(module->get()).value_or(true), false);
}

TEST(DynamicSizes, ThatCrossTheInterfaceAreRefused) {
  for (const char* text :
       {"a = f32[6] parameter(0) n = s32[] parameter(1) ROOT d = f32[<=6] set-dimension-size(a, n), dimensions={0}",
        "a = f32[<=6] parameter(0) b = f32[<=6] reverse(a), dimensions={0} ROOT n = s32[] get-dimension-size(b), "
        "dimensions={0}"}) {
    auto module = ParseHloModule(std::string("HloModule m ENTRY e { ") + text + " }");
    ASSERT_TRUE(module.ok()) << module.status();
    EXPECT_EQ(IsolateDynamicSizes().Run(module->get()).status().code(), absl::StatusCode::kUnimplemented);
  }
}

}  // namespace
}  // namespace backplane
