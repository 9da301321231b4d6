#include "plugins/tpu_emulator/program/rounding.h"

#include <cmath>

#include "core/eval/evaluator.h"
#include "core/types/numeric.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/array/array_product.h"
#include "plugins/tpu_emulator/program/program_testing.h"

namespace backplane::tpu {
namespace {

std::vector<float> RunIt(const Module& module, const std::vector<Literal>& arguments) {
  absl::StatusOr<Literal> value = Evaluate(module, arguments);
  EXPECT_TRUE(value.ok()) << value.status();
  std::vector<float> out;
  for (int64_t i = 0; value.ok() && i < value->num_elements(); ++i) {
    out.push_back(static_cast<float>(value->GetAsDouble(i)));
  }
  return out;
}

float At(const Literal& l, int64_t i) { return static_cast<float>(l.GetAsDouble(i)); }

constexpr char kChain[] = R"(HloModule m
ENTRY e {
  a = bf16[64] parameter(0)
  b = bf16[64] parameter(1)
  p = bf16[64] multiply(a, b)
  q = bf16[64] add(p, a)
  ROOT r = bf16[64] subtract(q, b)
})";

TEST(Rounding, RoundsAChainOnce) {
  PreparedProgram p = PrepareFromText(kChain);
  const std::vector<Literal> x = RandomArguments(*p.executable, 3);
  const std::vector<float> got = RunIt(*p.executable, x);
  bool differs = false;
  for (int64_t i = 0; i < 64; ++i) {
    const float a = At(x[0], i), b = At(x[1], i);
    const float product = a * b, sum = product + a, difference = sum - b;
    EXPECT_EQ(got[static_cast<size_t>(i)], RoundToBf16(difference)) << i;
    differs |= RoundToBf16(difference) != RoundToBf16(RoundToBf16(RoundToBf16(product) + a) - b);
  }
  EXPECT_TRUE(differs) << "the data does not tell one rounding from three";
}

TEST(Rounding, RoundsEveryOperationInOpMode) {
  PrepareOptions options;
  options.round = Round::kOp;
  PreparedProgram p = PrepareFromText(kChain, "v5e", options);
  const std::vector<Literal> x = RandomArguments(*p.executable, 3);
  const std::vector<float> got = RunIt(*p.executable, x);
  for (int64_t i = 0; i < 64; ++i) {
    const float a = At(x[0], i), b = At(x[1], i);
    EXPECT_EQ(got[static_cast<size_t>(i)], RoundToBf16(RoundToBf16(RoundToBf16(a * b) + a) - b)) << i;
  }
}

TEST(Rounding, AnIotaHoldsValuesOfItsType) {
  // f8e8m0fnu has no zero and rounds e to 2; bf16 rounds odd numbers above 256.
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  i = f8e8m0fnu[2] iota(), iota_dimension=0
  a = f8e8m0fnu[2] exponential(i)
  ROOT r = f32[2] convert(a)
})");
  EXPECT_THAT(RunIt(*p.executable, {}), testing::ElementsAre(testing::IsNan(), 2.0f));
  p = PrepareFromText(R"(HloModule m
ENTRY e {
  i = bf16[260] iota(), iota_dimension=0
  r = bf16[260] add(i, i)
  ROOT s = f32[260] convert(r)
})");
  const std::vector<float> got = RunIt(*p.executable, {});
  for (int64_t i = 0; i < 260; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 2 * RoundToBf16(static_cast<float>(i))) << i;
}

TEST(Rounding, RoundsAnEightBitFloatAfterEachOperation) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  x = f8e5m2[64] parameter(0)
  y = f8e5m2[64] multiply(x, x)
  z = f8e5m2[64] subtract(y, x)
  ROOT r = f32[64] convert(z)
})");
  const auto rounded = [](float v) {
    return static_cast<float>(Literal::Scalar(PrimitiveType::kF8E5M2, v).GetAsDouble(0));
  };
  const std::vector<Literal> arguments = RandomArguments(*p.executable, 7);
  const std::vector<float> got = RunIt(*p.executable, arguments);
  bool differs = false;
  for (int64_t i = 0; i < 64; ++i) {
    const float x = At(arguments[0], i);
    EXPECT_EQ(got[static_cast<size_t>(i)], rounded(rounded(x * x) - x)) << i;
    differs |= rounded(rounded(x * x) - x) != rounded(x * x - x);
  }
  EXPECT_TRUE(differs) << "the data does not tell one rounding from two";
}

TEST(Rounding, AnInfinityOfATypeWithoutOneIsNan) {
  // log1p(-1) is -infinity, which is NaN in this type, and 0 as an integer.
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  x = f8e5m2fnuz[4] parameter(0)
  l = f8e5m2fnuz[4] log-plus-one(x)
  ROOT r = s4[4] convert(l)
})");
  EXPECT_THAT(RunIt(*p.executable, RandomArguments(*p.executable, 1, -1, -1)), testing::Each(0));
}

TEST(Rounding, RoundsAProductBeforeItsEpilogue) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  a = bf16[8,32] parameter(0)
  w = bf16[32,8] parameter(1)
  b = bf16[8] parameter(2)
  d = bf16[8,8] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = bf16[8,8] broadcast(b), dimensions={1}
  s = bf16[8,8] add(d, c)
  ROOT r = bf16[8,8] multiply(s, s)
})");
  ASSERT_EQ(p.schedule.kernels.size(), 1u);
  const std::vector<Literal> x = RandomArguments(*p.executable, 5);
  const std::vector<float> got = RunIt(*p.executable, x);
  absl::StatusOr<Literal> product = Evaluate(*PrepareFromText(R"(HloModule m
ENTRY e {
  a = bf16[8,32] parameter(0)
  w = bf16[32,8] parameter(1)
  ROOT d = bf16[8,8] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})")
                                                  .executable,
                                             {x[0], x[1]});
  ASSERT_TRUE(product.ok());
  for (int64_t i = 0; i < 64; ++i) {
    const float s = At(*product, i) + At(x[2], i % 8);
    EXPECT_EQ(got[static_cast<size_t>(i)], RoundToBf16(s * s)) << i;
  }
}

TEST(Rounding, RoundsOperandsOfAProduct) {
  // Cheap operations are fused into the product's kernel, and the array reads bf16.
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  a = bf16[16,16] parameter(0)
  b = bf16[16,16] parameter(1)
  w = bf16[16,16] parameter(2)
  s = bf16[16,16] add(a, b)
  t = bf16[16,16] multiply(s, b)
  ROOT d = bf16[16,16] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  ASSERT_EQ(p.schedule.kernels.size(), 1u);
  std::vector<Literal> x = RandomArguments(*p.executable, 5);
  for (int64_t i = 0; i < 256; ++i) x[2].SetFromDouble(i, i % 17 == 0 ? 1 : 0);  // the identity
  const std::vector<float> got = RunIt(*p.executable, x);
  for (int64_t i = 0; i < 256; ++i) {
    const float s = At(x[0], i) + At(x[1], i);
    EXPECT_EQ(got[static_cast<size_t>(i)], RoundToBf16(s * At(x[1], i))) << i;
  }
}

TEST(Rounding, AccumulatesSumsInF32) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
add { x = bf16[] parameter(0) y = bf16[] parameter(1) ROOT s = bf16[] add(x, y) }
ENTRY e {
  a = bf16[1000] parameter(0)
  z = bf16[] constant(0)
  ROOT s = bf16[] reduce(a, z), dimensions={0}, to_apply=add
})");
  Literal ones(Shape(PrimitiveType::kBF16, {1000}));
  for (int64_t i = 0; i < 1000; ++i) ones.SetFromDouble(i, 1);
  EXPECT_EQ(RunIt(*p.executable, {ones})[0], 1000);  // in bf16 the sum would stop at 256
}

TEST(Rounding, RoundsAtConvertsOfTheProgram) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  a = f32[64] parameter(0)
  b = bf16[64] convert(a)
  c = f32[64] convert(b)
  ROOT r = f32[64] add(c, c)
})");
  ASSERT_EQ(p.schedule.kernels.size(), 1u);
  const std::vector<Literal> x = RandomArguments(*p.executable, 9);
  const std::vector<float> got = RunIt(*p.executable, x);
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 2 * RoundToBf16(At(x[0], i)));
}

// reduce-precision works on the bits of the narrow type: subnormal numbers are kept, and an unrounded operand is
// rounded first.
TEST(Rounding, ReducePrecisionUsesTheNarrowType) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  a = f16[4] parameter(0)
  b = f16[4] parameter(1)
  s = f16[4] add(a, b)
  ROOT r = f16[4] reduce-precision(s), exponent_bits=5, mantissa_bits=29
})");
  Literal a(Shape(PrimitiveType::kF16, {4})), b(Shape(PrimitiveType::kF16, {4}));
  const double values[] = {0x1p-24, -0x1.8p-23, 1, 2048}, more[] = {0, 0, 0x1p-12, 1};
  for (int64_t i = 0; i < 4; ++i) a.SetFromDouble(i, values[i]), b.SetFromDouble(i, more[i]);
  EXPECT_THAT(RunIt(*p.executable, {a, b}), testing::ElementsAre(0x1p-24f, -0x1.8p-23f, 1, 2048));
}

TEST(Rounding, DoesNotWidenAnUpdatedArray) {
  PreparedProgram p = PrepareFromText(R"(HloModule m
ENTRY e {
  a = bf16[1024,128] parameter(0)
  u = bf16[1,128] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  v = bf16[1,128] multiply(u, u)
  w = bf16[1,128] add(v, u)
  ROOT r = bf16[1024,128] dynamic-update-slice(a, w, i, z)
})");
  EXPECT_THAT(p.executable->ToString(), ::testing::Not(::testing::HasSubstr("f32[1024,128]")));
  EXPECT_THAT(p.executable->ToString(), ::testing::HasSubstr("f32[1,128]"));
}

TEST(Rounding, LeavesF32AndF64Unchanged) {
  for (const char* type : {"f32", "f64"}) {
    const std::string hlo = std::string("HloModule m\nENTRY e { a = ") + type + "[33] parameter(0) b = " + type +
                            "[33] exponential(a) c = " + type + "[33] multiply(b, a) ROOT d = " + type +
                            "[33] divide(c, b) }";
    PreparedProgram p = PrepareFromText(hlo);
    std::unique_ptr<Module> original = ParseProgram(hlo);
    const std::vector<Literal> x = RandomArguments(*original, 2);
    EXPECT_TRUE(*Evaluate(*p.executable, x) == *Evaluate(*original, x));
    EXPECT_THAT(p.executable->ToString(), ::testing::Not(::testing::HasSubstr("convert")));
  }
}

TEST(Rounding, ExecutableHasNoFusionsAndNoLayouts) {
  PreparedProgram p = PrepareFromText(kChain);
  EXPECT_THAT(p.executable->ToString(), ::testing::Not(::testing::HasSubstr("fusion")));
  EXPECT_THAT(p.executable->ToString(), ::testing::Not(::testing::HasSubstr("T(")));
  EXPECT_TRUE(p.executable->config().parameter_layouts.empty());
  EXPECT_THAT(p.kernels->ToString(), ::testing::HasSubstr("kind=kLoop"));
  EXPECT_EQ(p.kernels->config().parameter_layouts.size(), 2u);
}

}  // namespace
}  // namespace backplane::tpu
