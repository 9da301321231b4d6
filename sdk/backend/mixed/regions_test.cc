// Tests which adjacent instructions become one fusion.
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/backend/mixed/claims.h"

namespace backplane::mixed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool IsArithmetic(const Instruction& op) { return op.info().Has(kElementwise); }

// Returns the operations of each fusion, in order, after the pass. The module must still verify.
std::vector<std::vector<std::string>> Fusions(const std::string& text, bool (*joins)(const Instruction&)) {
  auto module = ParseHloModule("HloModule m\n" + text);
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return {};
  auto made = FormRegions(module->get(), {{joins}});
  EXPECT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module) << "\n" << (*module)->ToString();
  std::vector<std::vector<std::string>> found;
  for (const Computation* c : (*module)->PostOrder()) {
    for (const auto& i : c->instructions()) {
      if (!i->Is(Opcode::kFusion)) continue;
      std::vector<std::string> names;
      for (const auto& inner : i->called(0)->instructions()) {
        if (!inner->Is(Opcode::kParameter)) names.push_back(inner->info().text);
      }
      found.push_back(std::move(names));
    }
  }
  EXPECT_EQ(static_cast<int64_t>(found.size()), made.ok() ? *made : -1);
  return found;
}

TEST(RegionsTest, AChainIsOne) {
  EXPECT_THAT(Fusions(R"(
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] add(x, y)
  b = f32[4] multiply(a, a)
  ROOT c = f32[4] tanh(b)
})",
                      &IsArithmetic),
              ElementsAre(ElementsAre("add", "multiply", "tanh")));
}

TEST(RegionsTest, AValueThatOthersReadStaysOutside) {
  // The dot reads `a` as well, so b and c join and a does not.
  EXPECT_THAT(Fusions(R"(
ENTRY e {
  x = f32[4,4] parameter(0)
  a = f32[4,4] negate(x)
  d = f32[4,4] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[4,4] add(a, d)
  ROOT c = f32[4,4] tanh(b)
})",
                      &IsArithmetic),
              ElementsAre(ElementsAre("add", "tanh")));
}

TEST(RegionsTest, WhatHasTwoResultsIsTwo) {
  EXPECT_THAT(Fusions(R"(
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] tanh(a)
  c = f32[4] cosine(x)
  d = f32[4] sine(c)
  ROOT t = (f32[4], f32[4]) tuple(b, d)
})",
                      &IsArithmetic),
              testing::UnorderedElementsAre(ElementsAre("negate", "tanh"), ElementsAre("cosine", "sine")));
}

TEST(RegionsTest, InsideLoopsAndNothingElse) {
  const std::string loop = R"(
cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[4] get-tuple-element(s), index=1
  a = f32[4] add(x, x)
  b = f32[4] tanh(a)
  ROOT t = (s32[], f32[4]) tuple(j, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(s), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
})";
  EXPECT_THAT(Fusions(loop, &IsArithmetic), ElementsAre(ElementsAre("add", "tanh")));
  EXPECT_THAT(Fusions(loop, [](const Instruction&) { return false; }), IsEmpty());
}

}  // namespace
}  // namespace backplane::mixed
