#include <gtest/gtest.h>

#include "core/passes/golden.h"
#include "plugins/cpu/compiler/legalize.h"

namespace backplane::cpu {
namespace {

TEST(Golden, LegalizeContractions) {
  RunGoldenFile("plugins/cpu/compiler/testdata/legalize-contractions.hlo",
                [] { return std::make_unique<LegalizeContractions>(); });
}

TEST(Golden, LegalizeLayouts) {
  RunGoldenFile("plugins/cpu/compiler/testdata/legalize-layouts.hlo",
                [] { return std::make_unique<LegalizeLayouts>(); });
}

}  // namespace
}  // namespace backplane::cpu
