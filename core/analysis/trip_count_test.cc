#include "core/analysis/trip_count.h"

#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

struct Counter {
  const char *start, *limit, *step;
  const char* type = "s32";
  const char* direction = "LT";
};

std::optional<int64_t> GetTripCount(const Counter& c) {
  const std::string text = absl::StrReplaceAll(
      R"(HloModule m
cond {
  s = ($type[], f32[]) parameter(0)
  i = $type[] get-tuple-element(s), index=0
  n = $type[] constant($limit)
  ROOT c = pred[] compare(i, n), direction=$direction
}
body {
  s = ($type[], f32[]) parameter(0)
  i = $type[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
  k = $type[] constant($step)
  j = $type[] add(i, k)
  y = f32[] add(x, x)
  ROOT t = ($type[], f32[]) tuple(j, y)
}
ENTRY e {
  x = f32[] parameter(0)
  a = $type[] constant($start)
  t = ($type[], f32[]) tuple(a, x)
  ROOT w = ($type[], f32[]) while(t), condition=cond, body=body
})",
      {{"$start", c.start}, {"$limit", c.limit}, {"$step", c.step}, {"$type", c.type}, {"$direction", c.direction}});
  auto module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return ComputeTripCount(*(*module)->entry()->root());
}

TEST(TripCount, CountsFromStartToLimit) {
  EXPECT_EQ(GetTripCount({"0", "10", "1"}), 10);
  EXPECT_EQ(GetTripCount({"3", "10", "2"}), 4);
  EXPECT_EQ(GetTripCount({"-5", "5", "10"}), 1);
  EXPECT_EQ(GetTripCount({"10", "10", "1"}), 0);
  EXPECT_EQ(GetTripCount({"0", "250", "5", "u8"}), 50);
  EXPECT_EQ(GetTripCount({"-9223372036854775807", "9223372036854775807", "9223372036854775807", "s64"}), 2);
}

TEST(TripCount, IsUnknownForOtherLoops) {
  EXPECT_EQ(GetTripCount({"0", "10", "0"}), std::nullopt);
  EXPECT_EQ(GetTripCount({"0", "10", "-1"}), std::nullopt);
  EXPECT_EQ(GetTripCount({"0", "10", "1", "s32", "NE"}), std::nullopt);
}

// A counter that overflows below the limit continues, so the arithmetic would give too small a trip count.
TEST(TripCount, IsUnknownIfCounterOverflows) {
  EXPECT_EQ(GetTripCount({"0", "2147483647", "2"}), std::nullopt);
  EXPECT_EQ(GetTripCount({"0", "127", "100", "s8"}), std::nullopt);
  EXPECT_EQ(GetTripCount({"0", "255", "200", "u8"}), std::nullopt);
  EXPECT_EQ(GetTripCount({"27", "127", "100", "s8"}), 1);
  EXPECT_EQ(GetTripCount({"55", "255", "200", "u8"}), 1);
  EXPECT_EQ(GetTripCount({"0", "18446744073709551615", "1", "u64"}), std::nullopt);
}

}  // namespace
}  // namespace backplane
