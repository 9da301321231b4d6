#include "sdk/compiler/index_map.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"

namespace backplane::compiler {
namespace {

// Whether the walk over a chain of operations gives up. It must not overflow the stack.
bool IsTooComplex(int operations) {
  std::string text = "HloModule m\nENTRY e {\nx = f32[9] parameter(0)\ny = f32[9] parameter(1)\n", previous = "x";
  for (int k = 0; k < operations; ++k) {
    absl::StrAppend(&text, k + 1 == operations ? "ROOT " : "", "v", k, " = f32[9] add(", previous, ", y)\n");
    previous = absl::StrCat("v", k);
  }
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text + "}\n");
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return false;
  VarTable vars;
  const AccessWalk::ArraySet materialized;
  AccessWalk walk(vars, materialized);
  walk.Visit((*module)->entry()->root(), {Affine::Var(vars.Loop(9))});
  walk.Finish();
  return walk.too_complex();
}

TEST(AccessWalk, GivesUpOnLongChains) {
  EXPECT_FALSE(IsTooComplex(900));
  EXPECT_TRUE(IsTooComplex(25000));
}

}  // namespace
}  // namespace backplane::compiler
