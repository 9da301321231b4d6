// Reductions expanded to loops: the results must equal the evaluator's results for the original, bit by bit.
#include "core/passes/expand_reductions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/passes/called_arrays_cases.h"
#include "core/passes/passes.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

// The computations that the pass itself generates.
bool IsGeneratedByThePass(const Computation& c) {
  return c.root()->Is(Opcode::kParameter) || (c.instruction_count() == 3 && c.root()->Is(Opcode::kOr));
}

// Neither commutative nor associative, and wrong if an element comes out of order or from outside of the window.
constexpr char kBodies[] = R"(
f { x = s32[] parameter(0) y = s32[] parameter(1) k = s32[] constant(3) a = s32[] multiply(x, k) ROOT r = s32[] add(a, y) }
pair { x = s32[] parameter(0) i = f32[] parameter(1) y = s32[] parameter(2) j = f32[] parameter(3)
  k = s32[] constant(5) a = s32[] multiply(x, k) s = s32[] add(a, y) b = f32[] subtract(i, j) ROOT r = (s32[], f32[]) tuple(s, b) }
ge { x = s32[] parameter(0) y = s32[] parameter(1) ROOT r = pred[] compare(x, y), direction=GE }
lt { x = s32[] parameter(0) y = s32[] parameter(1) ROOT r = pred[] compare(x, y), direction=LT }
lt2 { x = s32[] parameter(0) y = s32[] parameter(1) i = f32[] parameter(2) j = f32[] parameter(3) ROOT r = pred[] compare(x, y), direction=LT }
square { x = s32[] parameter(0) ROOT r = s32[] multiply(x, x) }
)";

struct Program {
  const char* name;
  const char* entry;
};

const Program kPrograms[] = {
    {"reduce",
     "a = s32[3,4,5] parameter(0) z = s32[] parameter(1) ROOT r = s32[4] reduce(a, z), dimensions={2,0}, to_apply=f"},
    {"reduce_all",
     "a = s32[3,4] parameter(0) z = s32[] parameter(1) ROOT r = s32[] reduce(a, z), dimensions={0,1}, to_apply=f"},
    {"reduce_no_dimension",
     "a = s32[3] parameter(0) z = s32[] parameter(1) ROOT r = s32[3] reduce(a, z), dimensions={}, to_apply=f"},
    {"reduce_no_element",
     "a = s32[3,0] parameter(0) z = s32[] parameter(1) ROOT r = s32[3] reduce(a, z), dimensions={1}, to_apply=f"},
    {"reduce_to_no_element",
     "a = s32[3,0] parameter(0) z = s32[] parameter(1) ROOT r = s32[0] reduce(a, z), dimensions={0}, to_apply=f"},
    {"reduce_pairs",
     "a = s32[3,4] parameter(0) b = f32[3,4] parameter(1) z = s32[] parameter(2) w = f32[] parameter(3) ROOT r = "
     "(s32[3], f32[3]) reduce(a, b, z, w), dimensions={1}, to_apply=pair"},
    {"window",
     "a = s32[7,5] parameter(0) z = s32[] parameter(1) ROOT r = s32[4,4] reduce-window(a, z), window={size=3x2 "
     "stride=2x1 pad=1_1x0_0}, to_apply=f"},
    {"window_with_holes",
     "a = s32[4,5] parameter(0) z = s32[] parameter(1) ROOT r = s32[7,4] reduce-window(a, z), window={size=2x2 "
     "pad=1_0x-1_2 lhs_dilate=2x1 rhs_dilate=1x2}, to_apply=f"},
    {"window_over_padding",
     "a = s32[2] parameter(0) z = s32[] parameter(1) ROOT r = s32[5] reduce-window(a, z), window={size=2 pad=3_1}, "
     "to_apply=f"},
    {"window_pairs",
     "a = s32[6] parameter(0) b = f32[6] parameter(1) z = s32[] parameter(2) w = f32[] parameter(3) ROOT r = (s32[3], "
     "f32[3]) reduce-window(a, b, z, w), window={size=3 stride=2 pad=0_1}, to_apply=pair"},
    {"select_and_scatter",
     "a = s32[7,6] parameter(0) s = s32[4,3] parameter(1) z = s32[] parameter(2) ROOT r = s32[7,6] "
     "select-and-scatter(a, s, z), window={size=3x2 stride=2x2 pad=1_1x0_0}, select=ge, scatter=f"},
    {"scatter_rows",
     "a = s32[5,4] parameter(0) n = s32[6,1] parameter(1) u = s32[6,4] parameter(2) ROOT r = s32[5,4] scatter(a, n, "
     "u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=f"},
    {"scatter_points",
     "a = s32[3,5] parameter(0) n = s32[2,9] parameter(1) u = s32[9] parameter(2) ROOT r = s32[3,5] scatter(a, n, u), "
     "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, "
     "to_apply=f"},
    {"scatter_batched",
     "a = s32[3,7] parameter(0) n = s32[3,4] parameter(1) u = s32[3,4,2] parameter(2) ROOT r = s32[3,7] scatter(a, n, "
     "u), update_window_dims={2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
     "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f"},
    {"scatter_windows_first",
     "a = s32[4,6] parameter(0) n = s64[5,2] parameter(1) u = s32[2,3,5] parameter(2) ROOT r = s32[4,6] scatter(a, n, "
     "u), update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, "
     "to_apply=f"},
    {"scatter_pairs",
     "a = s32[4] parameter(0) b = f32[4] parameter(1) n = s32[7,1] parameter(2) u = s32[7] parameter(3) v = f32[7] "
     "parameter(4) ROOT r = (s32[4], f32[4]) scatter(a, b, n, u, v), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=pair"},
    {"sort", "a = s32[3,13,2] parameter(0) ROOT r = s32[3,13,2] sort(a), dimensions={1}, to_apply=lt"},
    {"sort_is_stable",
     "a = s32[40] parameter(0) i = f32[40] iota(), iota_dimension=0 ROOT r = (s32[40], f32[40]) sort(a, i), "
     "dimensions={0}, to_apply=lt2"},
    {"sort_a_power_of_two",
     "a = s32[32] parameter(0) i = f32[32] iota(), iota_dimension=0 ROOT r = (s32[32], f32[32]) sort(a, i), "
     "dimensions={0}, to_apply=lt2"},
    {"sort_one", "a = s32[3,1] parameter(0) ROOT r = s32[3,1] sort(a), dimensions={1}, to_apply=lt"},
    {"map", "a = s32[3,4] parameter(0) ROOT r = s32[3,4] map(a), dimensions={0,1}, to_apply=square"},
};

class ExpandReductionsTest : public testing::TestWithParam<Program> {};

TEST_P(ExpandReductionsTest, MatchesTheEvaluator) {
  auto module = ParseHloModule(absl::StrCat("HloModule m\n", kBodies, "ENTRY e { ", GetParam().entry, " }"));
  ASSERT_TRUE(module.ok()) << module.status();
  std::mt19937 random(7);
  std::vector<Literal> arguments;
  for (const Instruction* p : (*module)->entry()->parameters()) {
    Literal l(p->shape());
    for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, static_cast<int64_t>(random() % 9) - 2);
    arguments.push_back(std::move(l));
  }
  const absl::StatusOr<Literal> wanted = Evaluate(**module, arguments);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  ExpandReductions pass(IsGeneratedByThePass);
  const absl::StatusOr<bool> changed = pass.Run(module->get());
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  ASSERT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module);
  const absl::StatusOr<Literal> got = Evaluate(**module, arguments);
  ASSERT_TRUE(got.ok()) << got.status() << (*module)->ToString();
  EXPECT_EQ(*got, *wanted) << (*module)->ToString();
  EXPECT_EQ(pass.Run(module->get()).value_or(true), false);
}

INSTANTIATE_TEST_SUITE_P(Programs, ExpandReductionsTest, testing::ValuesIn(kPrograms),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExpandReductions, KeepsSupportedComputations) {
  auto module = ParseHloModule(absl::StrCat("HloModule m\n", kBodies, "ENTRY e { ", kPrograms[0].entry, " }"));
  ASSERT_TRUE(module.ok()) << module.status();
  ExpandReductions pass([](const Computation&) { return true; });
  EXPECT_EQ(pass.Run(module->get()).value_or(true), false);
}

// A reduction has one iteration per reduced position: its loop contains one copy of the body, for all results.
TEST(ExpandReductions, CombinesAllResultsInOneIteration) {
  auto module = ParseHloModule(absl::StrCat("HloModule m\n", kBodies,
                                            "ENTRY e { a = s32[1000,8] parameter(0) z = s32[] parameter(1) ROOT r = "
                                            "s32[1000] reduce(a, z), dimensions={1}, to_apply=f }"));
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_TRUE(ExpandReductions(IsGeneratedByThePass).Run(module->get()).value_or(false));
  const std::string text = (*module)->ToString();
  EXPECT_TRUE(absl::StrContains(text, "s32[1000] multiply")) << text;
  EXPECT_FALSE(absl::StrContains(text, " reduce(")) << text;
}

// ---- Bodies that build arrays

bool Close(const Literal& a, const Literal& b) {
  if (a.shape().IsTuple()) {
    for (size_t k = 0; k < a.elements().size(); ++k) {
      if (!Close(a.elements()[k], b.elements()[k])) return false;
    }
    return true;
  }
  // Sums inside of a body may be computed in another order for a batch than for one call.
  const double step = BitWidth(a.shape().element_type()) == 16 ? 0.02 : 1e-5;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.GetAsDouble(i), y = b.GetAsDouble(i);
    if (!(x == y || std::abs(x - y) <= step * std::max(1.0, std::abs(x)))) return false;
  }
  return true;
}

// No computation that builds an array is called any more.
bool IsScalar(const Computation& c) {
  for (const auto& i : c.instructions()) {
    if (i->Is(Opcode::kTuple) ? i->shape().tuple_size() > 2 : !i->shape().IsArray() || i->shape().rank() > 0)
      return false;
    if (!i->called().empty()) return false;
  }
  return true;
}

class ArrayBodies : public testing::TestWithParam<CalledArraysCase> {};

TEST_P(ArrayBodies, MatchTheEvaluator) {
  auto module = ParseHloModule(GetParam().hlo);
  ASSERT_TRUE(module.ok()) << module.status();
  std::mt19937 random(3);
  std::vector<Literal> arguments;
  for (const Instruction* p : (*module)->entry()->parameters()) {
    Literal l(p->shape());
    for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, static_cast<int64_t>(random() % 7) - 2);
    arguments.push_back(std::move(l));
  }
  const absl::StatusOr<Literal> wanted = Evaluate(**module, arguments);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  ExpandReductions pass(IsScalar);
  const absl::StatusOr<bool> changed = pass.Run(module->get());
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(*changed);
  ASSERT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module) << (*module)->ToString();
  for (const Computation* c : (*module)->PostOrder()) {
    for (const auto& i : c->instructions()) {
      if (i->Is(Opcode::kWhile) || i->Is(Opcode::kConditional) || i->Is(Opcode::kCall)) continue;
      for (const Computation* called : i->called()) EXPECT_TRUE(IsScalar(*called)) << i->ToString();
    }
  }
  const absl::StatusOr<Literal> got = Evaluate(**module, arguments);
  ASSERT_TRUE(got.ok()) << got.status() << (*module)->ToString();
  EXPECT_TRUE(Close(*wanted, *got)) << wanted->ToString() << got->ToString() << (*module)->ToString();
}

// A sort calls its comparator twice, so each level of nesting doubles the program.
TEST(ExpandReductions, SortsNestedTooDeeplyAreRefused) {
  std::string text =
      "HloModule m\nc0 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }\n";
  constexpr int kLevels = 18;
  for (int k = 1; k <= kLevels; ++k) {
    absl::StrAppend(&text, "c", k, R"( {
 a = f32[] parameter(0)
 b = f32[] parameter(1)
 a1 = f32[1] reshape(a)
 b1 = f32[1] reshape(b)
 x = f32[2] concatenate(a1, b1), dimensions={0}
 s = f32[2] sort(x), dimensions={0}, to_apply=c)",
                    k - 1, R"(
 f = f32[1] slice(s), slice={[0:1]}
 ff = f32[] reshape(f)
 ROOT r = pred[] compare(ff, b), direction=LT
})",
                    "\n");
  }
  absl::StrAppend(&text, "ENTRY e { p = f32[2] parameter(0) ROOT s = f32[2] sort(p), dimensions={0}, to_apply=c",
                  kLevels, " }");
  auto module = ParseHloModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::Status status = ExpandReductions(IsGeneratedByThePass).Run(module->get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

// The sizes of arrays in a called computation, and indices that no signed integer holds.
TEST(ExpandReductions, KeepsDynamicSizesAndLargeIndices) {
  const std::pair<const char*, std::vector<Literal>> programs[] = {
      {R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
f {
 a = f32[] parameter(0)
 z = f32[] constant(0)
 c = f32[4] constant({1,2,3,4})
 n = s32[] constant(2)
 d = f32[<=4] set-dimension-size(c, n), dimensions={0}
 aa = f32[4] broadcast(a), dimensions={}
 e = f32[<=4] multiply(d, aa)
 ROOT r = f32[] reduce(e, z), dimensions={0}, to_apply=add
}
ENTRY e { p = f32[3] parameter(0) ROOT m = f32[3] map(p), dimensions={0}, to_apply=f })",
       {Literal::FromValues<float>({3}, {1, 2, 3})}},
      {R"(HloModule m
f { a = u64[] parameter(0)
 c = f32[4] constant({1,2,3,4})
 s = f32[1] dynamic-slice(c, a), dynamic_slice_sizes={1}
 ROOT r = f32[] reshape(s) }
ENTRY e { p = u64[3] parameter(0) ROOT m = f32[3] map(p), dimensions={0}, to_apply=f })",
       {Literal::FromValues<uint64_t>({3}, {0, (uint64_t{1} << 63) + 5, 2})}}};
  for (const auto& [text, arguments] : programs) {
    auto module = ParseHloModule(text);
    ASSERT_TRUE(module.ok()) << module.status();
    const absl::StatusOr<Literal> wanted = Evaluate(**module, arguments);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    const absl::Status ran = ExpandReductions([](const Computation&) { return false; }).Run(module->get()).status();
    ASSERT_TRUE(ran.ok()) << ran;
    const absl::StatusOr<Literal> got = Evaluate(**module, arguments);
    ASSERT_TRUE(got.ok()) << got.status() << (*module)->ToString();
    EXPECT_EQ(*got, *wanted) << (*module)->ToString();
  }
}

// The pass does not expand a reduction whose trip count exceeds 32 bits.
TEST(ExpandReductions, LeavesWhatDoesNotFitIn32Bits) {
  for (const char* entry :
       {"a = s32[1,1] parameter(0) z = s32[] parameter(1) ROOT r = s32[1,1] reduce-window(a, z), "
        "window={size=4294967296x4294967296 pad=4294967295_0x4294967295_0}, to_apply=f",
        "a = s32[1] parameter(0) z = s32[] parameter(1) ROOT r = s32[1] reduce-window(a, z), window={size=2 "
        "pad=4294967296_0 rhs_dilate=4294967296}, to_apply=f",
        "a = s32[4294967296] parameter(0) z = s32[] parameter(1) ROOT r = s32[] reduce(a, z), dimensions={0}, "
        "to_apply=f",
        "a = s32[4294967297] parameter(0) ROOT r = s32[4294967297] sort(a), dimensions={0}, to_apply=lt"}) {
    auto module = ParseHloModule(absl::StrCat("HloModule m\n", kBodies, "ENTRY e { ", entry, " }"));
    ASSERT_TRUE(module.ok()) << module.status();
    const absl::StatusOr<bool> changed = ExpandReductions([](const Computation&) { return false; }).Run(module->get());
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_FALSE(*changed) << (*module)->ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ArrayBodies, testing::ValuesIn(CalledArraysCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace backplane
