// Passes on random programs: the transformed program must give the results of the original one.
// PASSES_FUZZ_SEEDS=first,count selects other programs than the default ones.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/random_array_program.h"
#include "core/passes/random_control_program.h"
#include "core/passes/same_results.h"

namespace backplane {
namespace {

template <typename... Passes>
std::unique_ptr<PassPipeline> InOrder(const char* name) {
  auto p = std::make_unique<PassPipeline>(name);
  (p->Add<Passes>(), ...);
  return p;
}

// Each pass alone, after calls are inlined, with shared bodies, and with unshared bodies.
std::vector<std::unique_ptr<PassPipeline>> Pipelines() {
  std::vector<std::unique_ptr<PassPipeline>> p;
  p.push_back(InOrder<InlineCalls>("inlined"));
  p.push_back(InOrder<UnshareComputations>("unshared"));
  p.push_back(InOrder<SimplifyControlFlow>("control flow, calls as they are"));
  p.push_back(InOrder<InlineCalls, SimplifyControlFlow, SimplifyControlFlow>("control flow, bodies shared"));
  p.push_back(InOrder<InlineCalls, UnshareComputations, SimplifyControlFlow, RemoveDeadCode>("control flow"));
  p.push_back(
      InOrder<SimplifyTuples, FoldConstants, SimplifyControlFlow, InlineCalls, SimplifyControlFlow>("late calls"));
  p.push_back(InOrder<InlineCalls, SimplifyTuples, FoldConstants, UnrollLoops, SimplifyControlFlow>("unrolled"));
  p.push_back(InOrder<OrderEffects, EliminateCommonSubexpressions, SimplifyAlgebra, RemoveDeadCode>("computations"));
  p.push_back(MakeCommonPipeline());
  p.push_back(MakeCommonPipeline());
  p.back()->Add<UnrollLoops>();
  p.back()->Add<UnshareComputations>();
  return p;
}

struct Seeds {
  int first = 1, count = 60;
  bool chosen = false;
};

Seeds SeedsToRun(int usual) {
  Seeds s;
  s.count = usual;
  const char* text = std::getenv("PASSES_FUZZ_SEEDS");
  s.chosen = text != nullptr && std::sscanf(text, "%d,%d", &s.first, &s.count) == 2;
  return s;
}

TEST(RandomPrograms, KeepTheirResults) {
  const auto [first, count, chosen] = SeedsToRun(60);
  int compared = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const std::unique_ptr<Module> untouched = MakeRandomControlProgram(static_cast<uint32_t>(seed));
    ASSERT_TRUE(VerifyModule(*untouched).ok()) << "seed " << seed << ": " << VerifyModule(*untouched);
    SameResultsOptions options;
    options.seed = static_cast<uint32_t>(seed);
    options.runs = 2;
    for (const std::unique_ptr<PassPipeline>& p : Pipelines()) {
      const std::unique_ptr<Module> changed = untouched->Clone();
      p->set_verify(true);
      const absl::Status ran = p->Run(changed.get()).status();
      ASSERT_TRUE(ran.ok()) << "seed " << seed << ", " << p->name() << ": " << ran << "\n" << untouched->ToString();
      const absl::StatusOr<std::string> difference = DescribeDifferenceOfResults(*untouched, *changed, options);
      if (!difference.ok()) continue;  // too many iterations
      ++compared;
      EXPECT_EQ(*difference, "") << "seed " << seed << ", " << p->name() << "\n" << untouched->ToString();
      if (HasFailure() && !chosen) return;
    }
  }
  EXPECT_GT(compared, count * 5);
}

// Whether the pipeline keeps the results; false also if the program cannot be evaluated within the limit.
bool SameAfter(Pass& pass, const Module& untouched, uint32_t seed) {
  SameResultsOptions options;
  options.seed = seed;
  options.runs = 2;
  const std::unique_ptr<Module> changed = untouched.Clone();
  const absl::Status ran = RunPass(pass, changed.get(), /*verify=*/true).status();
  EXPECT_TRUE(ran.ok()) << "seed " << seed << ", " << pass.name() << ": " << ran << "\n" << untouched.ToString();
  if (!ran.ok()) return false;
  const absl::StatusOr<std::string> difference = DescribeDifferenceOfResults(untouched, *changed, options);
  if (!difference.ok()) return false;
  EXPECT_EQ(*difference, "") << "seed " << seed << ", " << pass.name() << "\n"
                             << untouched.ToString() << "\nnow\n"
                             << changed->ToString();
  return difference->empty();
}

// Chains of arrays, and loops with invariant work. Every rule must be applied at least once.
TEST(RandomPrograms, OfArraysKeepTheirResults) {
  const auto [first, count, chosen] = SeedsToRun(600);
  SimplifyAlgebra algebra;
  HoistLoopInvariants hoist(/*min_elements=*/1);
  PassPipeline known("known"), hoisted("hoisted");
  known.Add<FoldConstants>();
  known.Add<SimplifyAlgebra>();
  hoisted.Add<SimplifyControlFlow>();
  hoisted.Add<SimplifyTuples>();
  hoisted.Add<HoistLoopInvariants>(1);
  hoisted.Add<SimplifyAlgebra>();
  hoisted.set_fixed_point(2);
  const std::unique_ptr<PassPipeline> common = MakeCommonPipeline();
  int compared = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const std::unique_ptr<Module> untouched = MakeRandomArrayProgram(static_cast<uint32_t>(seed));
    ASSERT_TRUE(VerifyModule(*untouched).ok()) << "seed " << seed << ": " << VerifyModule(*untouched);
    for (Pass* pass : std::initializer_list<Pass*>{&algebra, &hoist, &known, &hoisted, common.get()}) {
      compared += SameAfter(*pass, *untouched, static_cast<uint32_t>(seed)) ? 1 : 0;
      if (HasFailure() && !chosen) return;
    }
  }
  EXPECT_GT(compared, count * 4);
  if (chosen) return;
  for (size_t k = 0; k < algebra.rules().rules().size(); ++k) {
    EXPECT_GT(algebra.applied()[k], 0) << algebra.rules().rules()[k].name << ": never applied";
  }
  EXPECT_GT(hoist.hoisted(), 50);
}

}  // namespace
}  // namespace backplane
