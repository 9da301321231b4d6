#include "core/analysis/aliased_leaves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

std::vector<AliasedLeaf> GetRootAliases(absl::string_view aliasing, absl::string_view result) {
  const std::string text = absl::StrCat(R"(HloModule m
ENTRY main {
  a = f32[2] parameter(0)
  b = (f32[3], (s32[4], f32[5])) parameter(1)
  c = f32[6] parameter(2)
  ROOT r = )",
                                        result, R"( custom-call(a, b, c), custom_call_target="t")", aliasing, "\n}\n");
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? GetAliasedLeaves(*(*module)->entry()->root()) : std::vector<AliasedLeaf>();
}

TEST(AliasedLeaves, CountsLeavesOverAllOperands) {
  EXPECT_THAT(GetRootAliases("", "f32[6]"), testing::IsEmpty());
  EXPECT_THAT(GetRootAliases(", output_to_operand_aliasing={{}: (2, {})}", "f32[6]"),
              testing::ElementsAre(AliasedLeaf{4, 0}));
  EXPECT_THAT(GetRootAliases(", output_to_operand_aliasing={{1}: (1, {1, 0}), {0}: (0, {})}", "(f32[2], s32[4])"),
              testing::ElementsAre(AliasedLeaf{2, 1}, AliasedLeaf{0, 0}));
}

TEST(AliasedLeaves, SkipsTuples) {
  EXPECT_THAT(GetRootAliases(", output_to_operand_aliasing={{}: (1, {1})}", "(s32[4], f32[5])"), testing::IsEmpty());
}

}  // namespace
}  // namespace backplane
