// The functions of kernel.h but the numbers: roles, in-place pairs, keys, plans, errors, scalar functions.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/jit/jit.h"

namespace backplane::engine::codegen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Module> Parse(const std::string& text) {
  auto m = ParseHloModule(text);
  EXPECT_TRUE(m.ok()) << m.status();
  return m.ok() ? *std::move(m) : nullptr;
}

std::vector<InPlacePair> Pairs(const std::string& body) {
  auto m =
      Parse("HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\nENTRY e {\n" +
            body + "}\n");
  absl::StatusOr<KernelPlan> plan = PlanKernel(*m->entry(), "k");
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? plan->in_place : std::vector<InPlacePair>();
}

TEST(InPlace, Elementwise) {
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  y = f32[100] parameter(1)\n  ROOT r = f32[100] add(x, y)\n"),
              ElementsAre(InPlacePair{0, 0, false}));
  // The first is read at other elements as well, the second is not.
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  y = f32[100] parameter(1)\n  v = f32[100] reverse(x), "
                    "dimensions={0}\n  s = f32[100] add(x, v)\n"
                    "  ROOT r = f32[100] add(s, y)\n"),
              ElementsAre(InPlacePair{1, 0, false}));
  // Another width does not fit; the same width of another type does.
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  ROOT r = f16[100] convert(x)\n"), IsEmpty());
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  ROOT r = s32[100] convert(x)\n"),
              ElementsAre(InPlacePair{0, 0, false}));
  EXPECT_THAT(Pairs("  x = f32[10,10] parameter(0)\n  ROOT r = f32[10,10] transpose(x), dimensions={1,0}\n"),
              IsEmpty());
  EXPECT_THAT(Pairs("  x = f32[10,10] parameter(0)\n  n = f32[10,10] negate(x)\n  ROOT r = f32[100] reshape(n)\n"),
              ElementsAre(InPlacePair{0, 0, false}));
  // Two outputs, one input: only one of them.
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  n = f32[100] negate(x)\n  a = f32[100] abs(x)\n  ROOT r = "
                    "(f32[100], f32[100]) tuple(n, a)\n"),
              ElementsAre(InPlacePair{0, 0, false}));
}

TEST(InPlace, RowsAndReductions) {
  // A row is read by its own work item before it is written.
  EXPECT_THAT(Pairs("  x = f32[50,64] parameter(0)\n  z = f32[] constant(0)\n  s = f32[50] reduce(x, z), "
                    "dimensions={1}, to_apply=add\n"
                    "  b = f32[50,64] broadcast(s), dimensions={0}\n  ROOT r = f32[50,64] subtract(x, b)\n"),
              ElementsAre(InPlacePair{0, 0, false}));
  // Columns are summed in a phase of their own, which is done before.
  EXPECT_THAT(Pairs("  x = f32[50,64] parameter(0)\n  z = f32[] constant(0)\n  s = f32[64] reduce(x, z), "
                    "dimensions={0}, to_apply=add\n"
                    "  b = f32[50,64] broadcast(s), dimensions={1}\n  ROOT r = f32[50,64] subtract(x, b)\n"),
              ElementsAre(InPlacePair{0, 0, false}));
  // Output 1 needs all of x after output 0 was written, or the other way round.
  EXPECT_THAT(
      Pairs("  x = f32[8,8] parameter(0)\n  n = f32[8,8] negate(x)\n  t = f32[8,8] transpose(x), dimensions={1,0}\n"
            "  ROOT r = (f32[8,8], f32[8,8]) tuple(n, t)\n"),
      IsEmpty());
}

TEST(InPlace, Updates) {
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  u = f32[10] parameter(1)\n  i = s32[] parameter(2)\n"
                    "  ROOT r = f32[100] dynamic-update-slice(x, u, i)\n"),
              ElementsAre(InPlacePair{0, 0, true}));
  // The update is made of the elements that it replaces.
  EXPECT_THAT(Pairs("  x = f32[100] parameter(0)\n  i = s32[] parameter(1)\n  s = f32[10] dynamic-slice(x, i), "
                    "dynamic_slice_sizes={10}\n"
                    "  n = f32[10] negate(s)\n  ROOT r = f32[100] dynamic-update-slice(x, n, i)\n"),
              ElementsAre(InPlacePair{0, 0, true}));
  // It is made of others: only if one vector holds all of it before it is written.
  auto of_others = [](absl::string_view elements) {
    return Pairs(
        absl::StrReplaceAll("  x = f32[1000] parameter(0)\n  i = s32[] parameter(1)\n  j = s32[] parameter(2)\n"
                            "  s = f32[N] dynamic-slice(x, j), dynamic_slice_sizes={N}\n"
                            "  ROOT r = f32[1000] dynamic-update-slice(x, s, i)\n",
                            {{"N", elements}}));
  };
  EXPECT_THAT(of_others("1"), ElementsAre(InPlacePair{0, 0, true}));
  EXPECT_THAT(of_others("8"), ElementsAre(InPlacePair{0, 0, true}));
  EXPECT_THAT(of_others("3"), IsEmpty());
  EXPECT_THAT(of_others("200"), IsEmpty());
  EXPECT_THAT(Pairs("  x = f32[1000] parameter(0)\n  i = s32[] parameter(1)\n  z = f32[] constant(0)\n"
                    "  t = f32[] reduce(x, z), dimensions={0}, to_apply=add\n  u = f32[1] reshape(t)\n"
                    "  ROOT r = f32[1000] dynamic-update-slice(x, u, i)\n"),
              ElementsAre(InPlacePair{0, 0, true}));
  // Another result reads the array after the update.
  EXPECT_THAT(Pairs("  x = f32[1000] parameter(0)\n  u = f32[1] parameter(1)\n  i = s32[] parameter(2)\n"
                    "  d = f32[1000] dynamic-update-slice(x, u, i)\n  n = f32[1000] reverse(x), dimensions={0}\n"
                    "  ROOT r = (f32[1000], f32[1000]) tuple(d, n)\n"),
              IsEmpty());
  auto scatter_of_own = [](absl::string_view updates) {
    return Pairs(absl::StrReplaceAll(
        "  x = f32[20] parameter(0)\n  i = s32[N,1] parameter(1)\n  v = f32[20] reverse(x), dimensions={0}\n"
        "  u = f32[N] slice(v), slice={[0:N]}\n"
        "  ROOT r = f32[20] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n",
        {{"N", updates}}));
  };
  EXPECT_THAT(scatter_of_own("1"), ElementsAre(InPlacePair{0, 0, true}));
  EXPECT_THAT(scatter_of_own("2"), IsEmpty());
  EXPECT_THAT(Pairs("  x = f32[20] parameter(0)\n  i = s32[5] parameter(1)\n  u = f32[5] parameter(2)\n"
                    "  ROOT r = f32[20] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
                    "scatter_dims_to_operand_dims={0}, "
                    "index_vector_dim=1, to_apply=add\n"),
              ElementsAre(InPlacePair{0, 0, true}));
}

TEST(InPlace, OthersAreRefused) {
  auto m = Parse(
      "HloModule m\nENTRY e {\n  x = f32[10,10] parameter(0)\n  ROOT r = f32[10,10] transpose(x), "
      "dimensions={1,0}\n}\n");
  auto plan = PlanKernel(*m->entry(), "k");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ShareMemory(*plan, {{0, 0, false}}, "k").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Classify, Roles) {
  auto m = Parse(R"(HloModule m
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
    ENTRY e {
      x = f32[8,16] parameter(0)
      w = f32[16,4] parameter(1)
      i = s32[] parameter(2)
      n = f32[8,16] negate(x)
      t = f32[16,8] transpose(n), dimensions={1,0}
      z = f32[] constant(0)
      s = f32[8] reduce(x, z), dimensions={1}, to_apply=add
      c = f32[16] reduce(x, z), dimensions={0}, to_apply=add
      u = f32[16,8] dynamic-update-slice(t, t, i, i)
      p = f32[8,16] reduce-window(x, z), window={size=1x3 pad=0_0x1_1}, to_apply=add
      d = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = (f32[8,16], f32[8], f32[16], f32[16,8], f32[8,16], f32[8,4]) tuple(n, s, c, u, p, d)
    })");
  auto role = [&](const std::string& name) {
    for (const auto& op : m->entry()->instructions()) {
      if (op->name() == name) return Classify(*op).role;
    }
    return FusionRole::kNotFusible;
  };
  EXPECT_EQ(role("n"), FusionRole::kElementwise);
  EXPECT_EQ(role("t"), FusionRole::kIndexing);
  EXPECT_EQ(role("s"), FusionRole::kReduction);
  EXPECT_EQ(role("u"), FusionRole::kUpdate);
  EXPECT_EQ(role("p"), FusionRole::kWindow);
  EXPECT_EQ(role("d"), FusionRole::kNotFusible);
  for (const auto& op : m->entry()->instructions()) {
    if (op->name() == "d") {
      EXPECT_THAT(Classify(*op).reason, HasSubstr("dot has no kernel"));
      EXPECT_EQ(CanEmit(*op).code(), absl::StatusCode::kUnimplemented);
    }
    if (op->Is(Opcode::kReduce)) {
      EXPECT_EQ(IsRowReduction(*op), op->name() == "s");
    }
  }
  EXPECT_THAT(std::string(PlanKernel(*m->entry(), "k").status().message()), HasSubstr("d: dot"));
}

TEST(Key, OfMeaningAlone) {
  const char* kText =
      "HloModule m\nENTRY e {\n  $A = f32[$N] parameter(0)\n  $B = f32[$N] $OP($A)\n  ROOT r = f32[$N] add($A, "
      "$B)\n}\n";
  auto key = [&](const char* a, const char* b, const char* op, const char* n, bool share = false) {
    auto m = Parse(absl::StrReplaceAll(kText, {{"$A", a}, {"$B", b}, {"$OP", op}, {"$N", n}}));
    const InPlacePair pair{0, 0, false};
    return share ? KernelKey(KernelKey(*m->entry()), {&pair, 1}) : KernelKey(*m->entry());
  };
  EXPECT_EQ(key("x", "y", "negate", "10"), key("p", "q", "negate", "10"));
  EXPECT_NE(key("x", "y", "negate", "10"), key("x", "y", "abs", "10"));
  EXPECT_NE(key("x", "y", "negate", "10"), key("x", "y", "negate", "11"));
  EXPECT_NE(key("x", "y", "negate", "10"), key("x", "y", "negate", "10", true));
}

TEST(Plan, UnitsAndChunks) {
  auto m = Parse("HloModule m\nENTRY e {\n  x = f32[1048576] parameter(0)\n  ROOT r = f32[1048576] negate(x)\n}\n");
  auto plan = PlanKernel(*m->entry(), "neg");
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->phases.size(), 1);
  EXPECT_EQ(plan->phases[0].symbol, "neg");
  EXPECT_GT(plan->phases[0].work_items, 1000);
  // About two microseconds: some thousands of elements, but far from all.
  double elements = 1048576.0 / plan->phases[0].work_items * plan->phases[0].min_items_per_chunk;
  EXPECT_GT(elements, 2000);
  EXPECT_LT(elements, 100000);
  m = Parse("HloModule m\nENTRY e {\n  x = f32[10] parameter(0)\n  ROOT r = f32[10] negate(x)\n}\n");
  plan = PlanKernel(*m->entry(), "neg");
  EXPECT_GE(plan->phases[0].min_items_per_chunk, plan->phases[0].work_items);
  m = Parse("HloModule m\nENTRY e {\n  x = f32[0] parameter(0)\n  ROOT r = f32[0] negate(x)\n}\n");
  EXPECT_THAT(PlanKernel(*m->entry(), "neg")->phases, IsEmpty());
}

// A loop that reads and writes one row of a large table in place is judged by the row.
TEST(Plan, CostlyFunctionsOfReductionsRunInVectors) {
  // Sums of rows, and what follows them.
  auto count_phases = [](absl::string_view rows, absl::string_view after) {
    auto m = Parse(absl::StrReplaceAll(
        absl::StrReplaceAll(
            "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
            "ENTRY e {\n  x = f32[ROWS,64] parameter(0)\n  v = f32[64] parameter(1)\n  y = f32[ROWS] parameter(2)\n"
            "  t = f32[64] tanh(v)\n  b = f32[ROWS,64] broadcast(t), dimensions={1}\n  p = f32[ROWS,64] multiply(x, "
            "b)\n"
            "  z = f32[] constant(0)\n  s = f32[ROWS] reduce(p, z), dimensions={1}, to_apply=add\n  AFTER\n}\n",
            {{"AFTER", after}}),
        {{"ROWS", rows}}));
    return PlanKernel(*m->entry(), "k")->phases.size();
  };
  EXPECT_EQ(count_phases("64", "ROOT r = f32[ROWS] logistic(s)"), 2);
  EXPECT_EQ(count_phases("64", "n = f32[ROWS] tanh(s)  ROOT r = (f32[ROWS], f32[ROWS]) tuple(n, s)"), 2);
  EXPECT_EQ(count_phases("4", "ROOT r = f32[ROWS] logistic(s)"), 1);
  EXPECT_EQ(count_phases("65", "ROOT r = f32[ROWS] add(s, y)"), 1);
  // The function is computed before the reduction.
  EXPECT_EQ(count_phases("64", "ROOT r = f32[ROWS] copy(s)"), 1);
}

TEST(Plan, OnlyWhatIsReachedIsCounted) {
  auto m = Parse(R"(HloModule m
    ENTRY e {
      t = f32[4096,256] parameter(0)
      k = s32[] parameter(1)
      z = s32[] constant(0)
      row = f32[1,256] dynamic-slice(t, k, z), dynamic_slice_sizes={1,256}
      n = f32[1,256] negate(row)
      ROOT r = f32[4096,256] dynamic-update-slice(t, n, k, z)
    })");
  auto apart = PlanKernel(*m->entry(), "row");
  ASSERT_TRUE(apart.ok()) << apart.status();
  auto plan = ShareMemory(*apart, {{0, 0, true}}, "row");
  ASSERT_TRUE(plan.ok()) << plan.status();
  double us = 0;
  for (const KernelPhase& p : plan->phases) us += p.estimated_us;
  EXPECT_GT(us, 0.005);
  EXPECT_LT(us, 1);  // the table alone would be 60
}

TEST(Emit, ManyKernelsAndFunctionsInOneModule) {
  auto m = Parse(R"(HloModule m
    less { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
    minmax { a = f32[] parameter(0) b = f32[] parameter(1) lo = f32[] minimum(a, b) hi = f32[] maximum(a, b) ROOT r = (f32[], f32[]) tuple(lo, hi) }
    k0 { x = f32[4] parameter(0) c = f32[4] constant({1, 2, 3, 4}) ROOT r = f32[4] add(x, c) }
    k1 { x = f32[4] parameter(0) c = f32[4] constant({4, 3, 2, 1}) ROOT r = f32[4] multiply(x, c) }
    ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] copy(x) })");
  auto find = [&](const std::string& name) -> const Computation* {
    for (const auto& c : m->computations()) {
      if (c->name() == name) return c.get();
    }
    return nullptr;
  };
  auto objects = jit::CompileModules(
      1,
      [&](int, llvm::Module& module) {
        KernelRequest kernels[] = {{PlanKernel(*find("k0"), "k0")->fusion, "k0"},
                                   {PlanKernel(*find("k1"), "k1")->fusion, "k1"}};
        if (absl::Status s = EmitKernels(kernels, module); !s.ok()) return s;
        ScalarRequest comparator{find("less"), "less"}, function{find("minmax"), "minmax"};
        return EmitScalarFunctions({&function, 1}, {&comparator, 1}, module);
      },
      nullptr);
  ASSERT_TRUE(objects.ok()) << objects.status();
  auto library = jit::CodeLibrary::Link(*objects);
  ASSERT_TRUE(library.ok()) << library.status();
  float in[4] = {1, 10, 100, 1000}, out[4];
  void* buffers[] = {in, out};
  (*(*library)->LookupFunction<KernelFn>("k0"))(buffers, 0, 1, nullptr);
  EXPECT_THAT(out, ElementsAre(2, 12, 103, 1004));
  (*(*library)->LookupFunction<KernelFn>("k1"))(buffers, 0, 1, nullptr);
  EXPECT_THAT(out, ElementsAre(4, 30, 200, 1000));
  auto less = *(*library)->LookupFunction<ComparatorFn>("less");
  float a = 1, b = 2;
  int32_t i = 5, j = 3;
  const void *left[] = {&a, &i}, *right[] = {&b, &j};
  EXPECT_TRUE(less(left, right));
  EXPECT_FALSE(less(right, left));
  EXPECT_FALSE(less(left, left));
  float low = 0, high = 0;
  const void* arguments[] = {&b, &a};
  void* results[] = {&low, &high};
  (*(*library)->LookupFunction<ScalarFn>("minmax"))(arguments, results);
  EXPECT_EQ(low, 1);
  EXPECT_EQ(high, 2);
}

TEST(Emit, ComparatorsMustCompare) {
  auto m = Parse(R"(HloModule m
    odd { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) ROOT r = pred[] compare(a, b), direction=LT }
    ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] copy(x) })");
  auto objects = jit::CompileModules(
      1,
      [&](int, llvm::Module& module) {
        ScalarRequest r{m->computations()[0]->name() == "odd" ? m->computations()[0].get() : m->computations()[1].get(),
                        "odd"};
        return EmitScalarFunctions({}, {&r, 1}, module);
      },
      nullptr);
  EXPECT_EQ(objects.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace backplane::engine::codegen
