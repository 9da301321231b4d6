#include <gtest/gtest.h>

#include "core/passes/golden.h"
#include "sdk/engine/compiler/legalize.h"

namespace backplane::engine {
namespace {

TEST(Golden, LegalizeContractions) {
  RunGoldenFile("sdk/engine/compiler/testdata/legalize-contractions.hlo",
                [] { return std::make_unique<LegalizeContractions>(); });
}

TEST(Golden, LegalizeLayouts) {
  RunGoldenFile("sdk/engine/compiler/testdata/legalize-layouts.hlo",
                [] { return std::make_unique<LegalizeLayouts>(); });
}

}  // namespace
}  // namespace backplane::engine
