// Passes that take rare operations apart: what they make of each, and what they refuse.
#include <gtest/gtest.h>

#include "core/passes/golden.h"
#include "core/passes/passes.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

template <typename P>
void Check(const char* name) {
  RunGoldenFile(std::string("core/passes/testdata/") + name + ".hlo", [] { return std::make_unique<P>(); });
}

TEST(Expand, Scans) { Check<ExpandScans>("expand-scans"); }
TEST(Expand, Dots) { Check<ExpandDots>("expand-dots"); }
TEST(Expand, Loops) { Check<UnrollLoops>("unroll-loops"); }
TEST(Expand, DynamicSizes) { Check<ResolveDynamicSizes>("resolve-dynamic-sizes"); }

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

}  // namespace
}  // namespace backplane
