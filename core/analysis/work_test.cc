#include "core/analysis/work.h"

#include <gtest/gtest.h>

#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

constexpr char kProgram[] = R"(HloModule m
body_of_fusion {
  x = f32[8,16] parameter(0)
  y = f32[16,4] parameter(1)
  d = f32[8,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT e = f32[8,4] exponential(d)
}
condition {
  s = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[100] multiply(x, x)
  ROOT t = (s32[], f32[100]) tuple(j, y)
}
cheap {
  ROOT a = f32[100] parameter(0)
}
costly {
  a = f32[100] parameter(0)
  b = f32[100] add(a, a)
  ROOT c = f32[100] multiply(b, a)
}
ENTRY e {
  x = f32[8,16] parameter(0)
  y = f32[16,4] parameter(1)
  z = f32[100] parameter(2)
  product = f32[8,4] fusion(x, y), kind=kLoop, calls=body_of_fusion
  zero = s32[] constant(0)
  start = (s32[], f32[100]) tuple(zero, z)
  loop = (s32[], f32[100]) while(start), condition=condition, body=body
  last = f32[100] get-tuple-element(loop), index=1
  p = pred[] parameter(3)
  choice = f32[100] conditional(p, last, last), true_computation=cheap, false_computation=costly
  ROOT r = (f32[8,4], f32[100]) tuple(product, choice)
})";

TEST(CountWork, CountsFusionsByTheirBodiesLoopsByTheirTripCountsAndTheBranchWithMostWork) {
  auto module = ParseHloModule(kProgram);
  ASSERT_TRUE(module.ok()) << module.status();
  const auto work = [&](absl::string_view name) {
    for (const auto& i : (*module)->entry()->instructions()) {
      if (i->name() == name) return CountWork(*i);
    }
    ADD_FAILURE() << name;
    return Cost();
  };
  const Cost fusion = work("product");
  EXPECT_EQ(fusion.flops, 2.0 * 8 * 16 * 4);
  EXPECT_EQ(fusion.transcendentals, 8.0 * 4);
  EXPECT_EQ(fusion.bytes_accessed, 4.0 * (8 * 16 + 16 * 4 + 8 * 4));
  // Per iteration: the product of 100 elements, the counter's sum, and the comparison.
  EXPECT_EQ(work("loop").flops, 7.0 * (100 + 1 + 1));
  EXPECT_EQ(work("last").bytes_accessed, 0);
  EXPECT_EQ(work("choice").flops, 2.0 * 100);  // of the branch with more work
}

}  // namespace
}  // namespace backplane
