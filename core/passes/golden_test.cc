#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "core/passes/calls.h"
#include "core/passes/combine_collectives.h"
#include "core/passes/golden.h"
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/same_results.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

template <typename P>
void Check(const char* name, const GoldenOptions& options = {}) {
  RunGoldenFile(
      std::string("core/passes/testdata/") + name + ".hlo", [] { return std::make_unique<P>(); }, options);
}

TEST(Golden, InlineCalls) {
  GoldenOptions options;
  options.not_evaluated = 2;  // draw random numbers
  Check<InlineCalls>("inline-calls", options);
}
TEST(Golden, UnshareComputations) { Check<UnshareComputations>("unshare-computations"); }
TEST(Golden, SimplifyTuples) { Check<SimplifyTuples>("simplify-tuples"); }
TEST(Golden, SimplifyControlFlow) { Check<SimplifyControlFlow>("simplify-control-flow"); }
TEST(Golden, RemoveDeadCode) { Check<RemoveDeadCode>("remove-dead-code"); }
TEST(Golden, EliminateCommonSubexpressions) {
  GoldenOptions options;
  options.not_evaluated = 1;  // draws random numbers
  Check<EliminateCommonSubexpressions>("eliminate-common-subexpressions", options);
}
TEST(Golden, SimplifyAlgebra) { Check<SimplifyAlgebra>("simplify-algebra"); }
TEST(Golden, AlgebraOfArithmetic) { Check<SimplifyAlgebra>("algebra-arithmetic"); }
TEST(Golden, AlgebraOfMovement) { Check<SimplifyAlgebra>("algebra-movement"); }
TEST(Golden, AlgebraOfSlices) { Check<SimplifyAlgebra>("algebra-slices"); }
TEST(Golden, AlgebraOfReductions) { Check<SimplifyAlgebra>("algebra-reductions"); }
TEST(Golden, HoistLoopInvariants) { Check<HoistLoopInvariants>("hoist-loop-invariants"); }
TEST(Golden, ExpandOperations) {
  GoldenOptions options;
  options.tolerance = 1e-5;  // sums in another order
  Check<ExpandOperations>("expand-operations", options);
}
TEST(Golden, ExpandAsync) { Check<ExpandAsync>("expand-async"); }
TEST(Golden, SimplifyCollectives) { Check<SimplifyCollectives>("simplify-collectives"); }
TEST(Golden, CombineAllReduces) { Check<CombineAllReduces>("combine-all-reduces"); }
TEST(Golden, OrderEffects) { Check<OrderEffects>("order-effects"); }

// A sum of the results of many effects. If the last effect follows the sum, it follows all of them.
TEST(OrderEffects, OrdersManyEffects) {
  constexpr int kCount = 4000;
  for (const bool follow : {false, true}) {
    std::string text =
        "HloModule m\nENTRY e {\nx = f32[] parameter(0)\nz = f32[] negate(x)\n"
        "s = f32[] add(x, x), control-predecessors={z}\n";
    std::string previous = "s";
    for (int k = 0; k < kCount; ++k) {
      absl::StrAppend(&text, "c", k, " = f32[] custom-call(x), custom_call_target=\"f\", ",
                      "custom_call_has_side_effect=true\na", k, " = f32[] add(", previous, ", c", k, ")\n");
      previous = absl::StrCat("a", k);
    }
    absl::StrAppend(&text, "last = f32[] custom-call(x), custom_call_target=\"f\", custom_call_has_side_effect=true",
                    follow ? absl::StrCat(", control-predecessors={", previous, "}") : "", "\nROOT r = f32[] add(",
                    previous, ", last)\n}\n");
    auto module = ParseHloModule(text);
    ASSERT_TRUE(module.ok()) << module.status();
    ASSERT_TRUE(OrderEffects().Run(module->get()).value_or(false));
    EXPECT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module);
    size_t predecessors = 0;
    for (const auto& i : (*module)->entry()->instructions()) predecessors += i->control_predecessors().size();
    EXPECT_EQ(predecessors, follow ? size_t{kCount} : 0u);
  }
}
TEST(Golden, FoldConstants) { Check<FoldConstants>("fold-constants"); }

// A pass that replaces subtractions by additions and reports no change.
class Lies : public Pass {
 public:
  absl::string_view name() const override { return "lies"; }
  absl::StatusOr<bool> Run(Module* module) override {
    for (Instruction* i : module->entry()->Snapshot()) {
      if (!i->Is(Opcode::kSubtract)) continue;
      InstructionSpec spec;
      spec.opcode = Opcode::kAdd;
      spec.shape = i->shape();
      spec.operands = {i->operand(0), i->operand(1)};
      i->ReplaceAllUsesWith(module->entry()->AddBefore(i, std::move(spec)));
    }
    return false;
  }
};

// Leaves an instruction whose shape does not follow from its operands.
class Breaks : public Pass {
 public:
  absl::string_view name() const override { return "breaks"; }
  absl::StatusOr<bool> Run(Module* module) override {
    const Shape wrong(PrimitiveType::kF32, {9});
    module->entry()->root()->mutable_shape() = wrong;
    return false;
  }
};

class WantsSingleCallers : public Pass {
 public:
  absl::string_view name() const override { return "wants-single-callers"; }
  absl::StatusOr<bool> Run(Module*) override { return false; }
  bool NeedsSingleCallers() const override { return true; }
};

constexpr char kDifference[] =
    "HloModule m ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT d = f32[2] subtract(x, y) }";

TEST(SameResults, TellsWhatAPassChanged) {
  const std::unique_ptr<Module> untouched = *ParseHloModule(kDifference), changed = untouched->Clone();
  ASSERT_TRUE(Lies().Run(changed.get()).ok());
  const absl::StatusOr<std::string> difference = DescribeDifferenceOfResults(*untouched, *changed);
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_TRUE(absl::StrContains(*difference, "f32[2] element 0: expected ")) << *difference;
  EXPECT_EQ(*DescribeDifferenceOfResults(*untouched, *untouched), "");
}

TEST(VerifiedPasses, NameThePassThatLeavesAWrongModule) {
  PassPipeline p("pipeline");
  p.Add<RemoveDeadCode>();
  p.Add<Breaks>();
  p.Add<SimplifyTuples>();
  p.set_verify(true);
  const absl::Status s = p.Run((*ParseHloModule(kDifference)).get()).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << s;
  EXPECT_TRUE(absl::StrContains(s.message(), "the module is wrong after breaks: computation e: ")) << s;
}

TEST(VerifiedPasses, NameThePassThatNeedsSingleCallers) {
  const std::unique_ptr<Module> module = *ParseHloModule(R"(HloModule m
    twice { x = f32[] parameter(0) ROOT y = f32[] add(x, x) }
    ENTRY e { x = f32[] parameter(0) a = f32[] call(x), to_apply=twice ROOT b = f32[] call(a), to_apply=twice })");
  WantsSingleCallers pass;
  const absl::Status s = RunPass(pass, module.get(), true).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << s;
  EXPECT_TRUE(absl::StrContains(
      s.message(), "the module is wrong before wants-single-callers: computation twice: is run by a and by b"))
      << s;
  ASSERT_TRUE(UnshareComputations().Run(module.get()).value_or(false));
  EXPECT_TRUE(RunPass(pass, module.get(), true).ok());
}

// f0 calls f1 twice, which calls f2 twice, and so on. `kind` selects the kind of call.
std::unique_ptr<Module> Doubling(int levels, const std::string& kind) {
  std::string text =
      "HloModule m\nmore { x = f32[] parameter(0) one = f32[] constant(1) ROOT r = pred[] compare(x, one), "
      "direction=LT }\n";
  for (int level = levels; level > 0; --level) {
    const std::string callee = absl::StrCat("f", level);
    absl::StrAppend(&text, absl::StrCat("f", level - 1), " { x = f32[] parameter(0) ");
    if (level == levels) {
      absl::StrAppend(&text, "ROOT r = f32[] add(x, x) }\n");
    } else if (kind == "call") {
      absl::StrAppend(&text, "a = f32[] call(x), to_apply=", callee, " ROOT b = f32[] call(a), to_apply=", callee,
                      " }\n");
    } else {
      absl::StrAppend(&text, "a = f32[] while(x), condition=more, body=", callee,
                      " ROOT b = f32[] while(a), condition=more, body=", callee, " }\n");
    }
  }
  absl::StrAppend(&text, "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f0 }\n");
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

TEST(CallBudget, RefusesFunctionsThatDouble) {
  for (const char* kind : {"call", "while"}) {
    for (auto run : {+[](Module* m) { return InlineCalls().Run(m).status(); },
                     +[](Module* m) { return UnshareComputations().Run(m).status(); },
                     +[](Module* m) { return MakeCommonPipeline()->Run(m).status(); }}) {
      const absl::Status s = run(Doubling(31, kind).get());
      EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << kind << ": " << s;
      EXPECT_TRUE(absl::StrContains(s.message(), "[call_budget]")) << s;
    }
  }
}

// Each caller would have a copy of the text.
TEST(CallBudget, RefusesLongTextsWithManyCallers) {
  std::string text = absl::StrCat(
      "HloModule m\nf { x = f32[] parameter(0) ROOT r = f32[] custom-call(x), "
      "custom_call_target=\"g\", backend_config=\"",
      std::string(1 << 20, 't'), "\" }\nENTRY e {\nx0 = f32[] parameter(0)\n");
  for (int i = 1; i <= 1100; ++i) absl::StrAppend(&text, "x", i, " = f32[] call(x", i - 1, "), to_apply=f\n");
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text + "ROOT r = f32[] negate(x1100)\n}\n");
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::Status s = InlineCalls().Run(module->get()).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << s;
  EXPECT_TRUE(absl::StrContains(s.message(), "1073741824 bytes of types, attributes and names")) << s;
}

TEST(CallBudget, LeavesRoomForPrograms) {
  std::unique_ptr<Module> module = Doubling(13, "call");
  ASSERT_TRUE(InlineCalls().Run(module.get()).value_or(false));
  EXPECT_EQ(module->entry()->instruction_count(), 1 + (1 << 12));
}

}  // namespace
}  // namespace backplane
