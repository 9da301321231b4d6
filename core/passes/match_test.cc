#include "core/passes/match.h"

#include <gtest/gtest.h>

#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using namespace match;

class MatchTest : public ::testing::Test {
 protected:
  MatchTest() {
    absl::StatusOr<std::unique_ptr<Module>> parsed = ParseHloModule(R"(HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  p = pred[4] parameter(2)
  zero = f32[] constant(0)
  minus_zero = f32[] constant(-0)
  zeros = f32[4] broadcast(zero), dimensions={}
  same = f32[4] constant({2, 2, 2, 2})
  various = f32[4] constant({2, 2, 2, 3})
  sum = f32[4] add(zeros, x)
  difference = f32[4] subtract(x, y)
  inner = f32[4] select(p, x, y)
  outer = f32[4] select(p, inner, difference)
  r = f32[4] reverse(outer), dimensions={0}
  rr = f32[4] reverse(r), dimensions={0}
  c = c64[] constant((0, 0))
  ROOT t = (f32[4], f32[4], f32[4], f32[4], f32[], c64[]) tuple(sum, rr, same, various, minus_zero, c)
})");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    module_ = *std::move(parsed);
  }
  Instruction* At(absl::string_view name) const {
    for (const auto& i : module_->entry()->instructions()) {
      if (i->name() == name) return i.get();
    }
    return nullptr;
  }
  std::unique_ptr<Module> module_;
};

TEST_F(MatchTest, OperandsInTheirOrder) {
  Instruction *a = nullptr, *b = nullptr, *whole = nullptr;
  EXPECT_TRUE(Matches(At("difference"), Binary(Opcode::kSubtract, Any(&a), Any(&b))));
  EXPECT_EQ(a, At("x"));
  EXPECT_EQ(b, At("y"));
  EXPECT_TRUE(Matches(At("r"), Op(Opcode::kReverse, Op(Opcode::kSelect, Any(), Any(&a), Any()).As(&whole))));
  EXPECT_EQ(whole, At("outer"));
  EXPECT_EQ(a, At("inner"));
  EXPECT_FALSE(Matches(At("difference"), Op(Opcode::kSubtract, Any())));  // the number of operands differs
  EXPECT_FALSE(Matches(At("difference"), Binary(Opcode::kAdd, Any(), Any())));
}

TEST_F(MatchTest, OperandsInAnyOrder) {
  Instruction* x = nullptr;
  EXPECT_TRUE(Matches(At("sum"), Commutative(Opcode::kAdd, Any(&x), UniformValue(0))));
  EXPECT_EQ(x, At("x"));
  EXPECT_FALSE(Matches(At("sum"), Binary(Opcode::kAdd, Any(), UniformValue(0))));
  EXPECT_FALSE(Matches(At("sum"), Commutative(Opcode::kAdd, Any(), UniformValue(1))));
}

TEST_F(MatchTest, Constants) {
  const Literal* value = nullptr;
  EXPECT_TRUE(Matches(At("same"), Uniform(&value)));
  EXPECT_EQ(value->GetAsDouble(0), 2);
  EXPECT_TRUE(Matches(At("zeros"), Uniform()));
  EXPECT_FALSE(Matches(At("various"), Uniform()));
  EXPECT_TRUE(Matches(At("various"), Constant()));
  EXPECT_FALSE(Matches(At("zeros"), Constant()));
  EXPECT_TRUE(Matches(At("zeros"), BroadcastOf(ScalarConstant(&value))));
  EXPECT_EQ(value->GetAsDouble(0), 0);
  EXPECT_FALSE(Matches(At("same"), ScalarConstant()));
  EXPECT_TRUE(Matches(At("zero"), UniformValue(0)));
  EXPECT_FALSE(Matches(At("minus_zero"), UniformValue(0)));
  EXPECT_TRUE(Matches(At("minus_zero"), UniformValue(-0.0)));
  EXPECT_FALSE(Matches(At("c"), UniformValue(0)));
  EXPECT_TRUE(Matches(At("zeros"), Splat(UniformValue(0))));
  EXPECT_TRUE(Matches(At("zero"), Splat(Any())));
  EXPECT_FALSE(Matches(At("same"), Splat(Any())));
}

TEST_F(MatchTest, TheSameInstructionTwice) {
  Instruction *p = nullptr, *x = nullptr, *z = nullptr;
  const auto pattern = Op(Opcode::kSelect, Any(&p), Op(Opcode::kSelect, Same(&p), Any(&x), Any()), Any(&z));
  EXPECT_TRUE(Matches(At("outer"), pattern));
  EXPECT_EQ(p, At("p"));
  EXPECT_EQ(x, At("x"));
  EXPECT_EQ(z, At("difference"));
  EXPECT_FALSE(Matches(At("inner"), pattern));
  EXPECT_FALSE(Matches(At("difference"), Binary(Opcode::kSubtract, Any(&x), Same(&x))));
}

TEST_F(MatchTest, Users) {
  EXPECT_TRUE(Matches(At("r"), OneUser(Any())));
  EXPECT_FALSE(Matches(At("x"), OneUser(Any())));
  EXPECT_FALSE(Matches(At("t"), OneUser(Any())));  // the root counts as used by the caller
  EXPECT_TRUE(Matches(At("rr"), Op(Opcode::kReverse, OneUser(Op(Opcode::kReverse, Any())))));
}

TEST_F(MatchTest, Combinations) {
  Instruction* i = nullptr;
  EXPECT_TRUE(Matches(At("sum"), Elementwise(&i)));
  EXPECT_EQ(i, At("sum"));
  EXPECT_FALSE(Matches(At("r"), Elementwise()));
  EXPECT_TRUE(Matches(At("r"), AnyOf(Elementwise(), Op(Opcode::kReverse, Any()))));
  EXPECT_FALSE(Matches(At("t"), AnyOf(Elementwise(), Op(Opcode::kReverse, Any()))));
  EXPECT_TRUE(Matches(At("same"), AllOf(Constant(), UniformValue(2))));
  EXPECT_FALSE(Matches(At("various"), AllOf(Constant(), Uniform())));
  EXPECT_TRUE(Matches(At("x"), Where([](const Instruction* o) { return o->shape().rank() == 1; })));
}

}  // namespace
}  // namespace backplane
