#include "core/analysis/leaves.h"

#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

TEST(LeavesTest, NumbersTheLeavesOfNestedTuples) {
  const Shape f32(PrimitiveType::kF32, {2});
  const Shape nested = Shape::Tuple({f32, Shape::Tuple({f32, Shape::Tuple({}), f32}), f32});
  EXPECT_EQ(CountLeaves(nested), 4);
  EXPECT_EQ(FindLeaf(nested, {0}), 0);
  EXPECT_EQ(FindLeaf(nested, {1, 0}), 1);
  EXPECT_EQ(FindLeaf(nested, {1, 2}), 2);
  EXPECT_EQ(FindLeaf(nested, {2}), 3);
  EXPECT_EQ(CountLeaves(f32), 1);
  EXPECT_EQ(FindLeaf(f32, {}), 0);
}

TEST(LeavesTest, FindsNothingWhereThereIsNoLeaf) {
  const Shape f32(PrimitiveType::kF32, {2});
  const Shape nested = Shape::Tuple({f32, Shape::Tuple({f32, Shape::Tuple({}), f32})});
  EXPECT_EQ(FindLeaf(nested, {}), std::nullopt);      // a tuple
  EXPECT_EQ(FindLeaf(nested, {1}), std::nullopt);     // a tuple
  EXPECT_EQ(FindLeaf(nested, {1, 1}), std::nullopt);  // a tuple without elements
  EXPECT_EQ(FindLeaf(nested, {2}), std::nullopt);
  EXPECT_EQ(FindLeaf(nested, {-1}), std::nullopt);
  EXPECT_EQ(FindLeaf(nested, {0, 0}), std::nullopt);  // below an array
}

TEST(LeavesTest, NumbersArgumentsAndOutputsOfAnEntry) {
  auto module = ParseHloModule(R"(HloModule m

ENTRY e {
  t = (f32[4], (f32[8], f32[2])) parameter(0)
  u = f32[3] parameter(1)
  v = (f32[4], f32[8]) parameter(2)
  ROOT r = ((f32[4], f32[8]), f32[3]) tuple(v, u)
}
)");
  ASSERT_TRUE(module.ok()) << module.status();
  const EntryLeaves leaves(*(*module)->entry());
  EXPECT_EQ(leaves.argument_count(), 6);
  EXPECT_EQ(leaves.first_argument(2), 4);
  EXPECT_EQ(leaves.FindArgument(0, {1, 1}), 2);
  EXPECT_EQ(leaves.FindArgument(1, {}), 3);
  EXPECT_EQ(leaves.FindArgument(2, {1}), 5);
  EXPECT_EQ(leaves.FindArgument(0, {1}), std::nullopt);
  EXPECT_EQ(leaves.FindArgument(3, {}), std::nullopt);
  EXPECT_EQ(leaves.FindArgument(-1, {}), std::nullopt);
  EXPECT_EQ(leaves.FindOutput({0, 1}), 1);
  EXPECT_EQ(leaves.FindOutput({1}), 2);
  EXPECT_EQ(leaves.FindOutput({0}), std::nullopt);
  EXPECT_EQ(leaves.FindOutput({2}), std::nullopt);
  EXPECT_EQ(leaves.FindOutput({}), std::nullopt);
  EXPECT_EQ(leaves.output_count(), 3);
}

}  // namespace
}  // namespace backplane
