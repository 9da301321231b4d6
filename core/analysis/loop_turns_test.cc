#include "core/analysis/loop_turns.h"

#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

std::optional<int64_t> TurnsOf(absl::string_view start, absl::string_view limit, absl::string_view step,
                               absl::string_view direction = "LT") {
  const std::string text =
      absl::StrReplaceAll(R"(HloModule m
cond {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant($limit)
  ROOT c = pred[] compare(i, n), direction=$direction
}
body {
  s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  k = s32[] constant($step)
  j = s32[] add(i, k)
  y = f32[] add(x, x)
  ROOT t = (s32[], f32[]) tuple(j, y)
}
ENTRY e {
  x = f32[] parameter(0)
  a = s32[] constant($start)
  t = (s32[], f32[]) tuple(a, x)
  ROOT w = (s32[], f32[]) while(t), condition=cond, body=body
})",
                          {{"$start", start}, {"$limit", limit}, {"$step", step}, {"$direction", direction}});
  auto module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return KnownTurns(*(*module)->entry()->root());
}

TEST(LoopTurns, CountsFromStartToLimitBySteps) {
  EXPECT_EQ(TurnsOf("0", "10", "1"), 10);
  EXPECT_EQ(TurnsOf("3", "10", "2"), 4);
  EXPECT_EQ(TurnsOf("-5", "5", "10"), 1);
  EXPECT_EQ(TurnsOf("10", "10", "1"), 0);
}

TEST(LoopTurns, KnowsWhereItCannotTell) {
  EXPECT_EQ(TurnsOf("0", "10", "0"), std::nullopt);
  EXPECT_EQ(TurnsOf("0", "10", "-1"), std::nullopt);
  EXPECT_EQ(TurnsOf("0", "10", "1", "NE"), std::nullopt);
  EXPECT_EQ(TurnsOf("0", "2147483647", "2"), std::nullopt);  // the counter would wrap around
}

}  // namespace
}  // namespace backplane
