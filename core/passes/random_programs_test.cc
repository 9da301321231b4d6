// Passes on random programs: what a pass leaves gives what the module gives that nothing has touched.
// PASSES_FUZZ_SEEDS=first,count runs others than the usual.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
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

// Each pass alone, behind calls taken in, where bodies are shared, and behind bodies of their own.
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
  p.push_back(CommonPipeline());
  p.push_back(CommonPipeline());
  p.back()->Add<UnrollLoops>();
  p.back()->Add<UnshareComputations>();
  return p;
}

TEST(RandomPrograms, KeepTheirResults) {
  int first = 1, count = 60;
  const char* seeds = std::getenv("PASSES_FUZZ_SEEDS");
  if (seeds != nullptr) std::sscanf(seeds, "%d,%d", &first, &count);
  int compared = 0;
  for (int seed = first; seed < first + count; ++seed) {
    const std::unique_ptr<Module> untouched = RandomControlProgram(static_cast<uint32_t>(seed));
    ASSERT_TRUE(VerifyModule(*untouched).ok()) << "seed " << seed << ": " << VerifyModule(*untouched);
    SameResultsOptions options;
    options.seed = static_cast<uint32_t>(seed);
    options.runs = 2;
    for (const std::unique_ptr<PassPipeline>& p : Pipelines()) {
      const std::unique_ptr<Module> changed = untouched->Clone();
      p->set_verify(true);
      const absl::Status ran = p->Run(changed.get()).status();
      ASSERT_TRUE(ran.ok()) << "seed " << seed << ", " << p->name() << ": " << ran << "\n" << untouched->ToString();
      const absl::StatusOr<std::string> difference = DifferenceOfResults(*untouched, *changed, options);
      if (!difference.ok()) continue;  // too many iterations
      ++compared;
      EXPECT_EQ(*difference, "") << "seed " << seed << ", " << p->name() << "\n" << untouched->ToString();
      if (HasFailure() && seeds == nullptr) return;
    }
  }
  EXPECT_GT(compared, count * 5);
}

}  // namespace
}  // namespace backplane
