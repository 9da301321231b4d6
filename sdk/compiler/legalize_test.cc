#include <gtest/gtest.h>

#include "core/passes/golden.h"
#include "sdk/compiler/expand_small_dots.h"
#include "sdk/compiler/legalize.h"
#include "sdk/compiler/select_small_branches.h"
#include "sdk/compiler/split_reductions.h"

namespace backplane::compiler {
namespace {

// Kernels for everything from a byte on, but floats of 8 bits.
ContractionRules RulesOfTheTest() {
  return {[](PrimitiveType t) { return BitWidth(t) >= (IsFloat(t) ? 16 : 8); }, nullptr};
}

TEST(Golden, LegalizeContractions) {
  RunGoldenFile("sdk/compiler/testdata/legalize-contractions.hlo",
                [] { return std::make_unique<LegalizeContractions>(RulesOfTheTest()); });
}

TEST(Golden, LegalizeConvolutions) {
  ContractionRules rules = RulesOfTheTest();
  rules.convolves_in_f32 = [](const Instruction& i) { return i.shape().element_type() == PrimitiveType::kF16; };
  RunGoldenFile("sdk/compiler/testdata/legalize-convolutions.hlo",
                [&] { return std::make_unique<LegalizeContractions>(rules); });
}

TEST(Golden, ExpandSmallDots) {
  GoldenOptions options;
  options.tolerance = 1e-5;  // sums in another order
  RunGoldenFile(
      "sdk/compiler/testdata/expand-small-dots.hlo", [] { return std::make_unique<ExpandSmallDots>(); }, options);
}

TEST(Golden, SelectSmallBranches) {
  RunGoldenFile("sdk/compiler/testdata/select-small-branches.hlo",
                [] { return std::make_unique<SelectSmallBranches>(); });
}

TEST(Golden, SplitReductions) {
  GoldenOptions options;
  options.tolerance = 1e-4;  // sums in another order
  RunGoldenFile(
      "sdk/compiler/testdata/split-reductions.hlo", [] { return std::make_unique<SplitReductions>(); }, options);
}

TEST(Golden, LegalizeLayouts) {
  RunGoldenFile("sdk/compiler/testdata/legalize-layouts.hlo", [] { return std::make_unique<LegalizeLayouts>(); });
}

}  // namespace
}  // namespace backplane::compiler
