#include "sdk/codegen/accuracy.h"

#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::codegen {
namespace {

using ::testing::HasSubstr;

absl::Status Check(const std::string& op, const std::string& type, double atol, double rtol, int64_t ulps) {
  auto module = ParseHloModule("HloModule m\nENTRY e { x = " + type + "[4] parameter(0) ROOT r = " + type + "[4] " +
                               op + "(x) }\n");
  EXPECT_TRUE(module.ok()) << module.status();
  ResultAccuracy a;
  a.mode = ResultAccuracy::Mode::kTolerance;
  a.atol = atol;
  a.rtol = rtol;
  a.ulps = ulps;
  (*module)->entry()->root()->set_result_accuracy(a);
  return CheckAccuracy(**module, /*has_fma=*/true);
}

TEST(Accuracy, WhatIsKeptIsAccepted) {
  EXPECT_TRUE(Check("exponential", "f32", 0, 0, 2).ok());
  EXPECT_TRUE(Check("exponential", "f32", 0, 1e-6, 0).ok());
  EXPECT_TRUE(Check("exponential", "f64", 0, 1e-15, 0).ok());
  EXPECT_TRUE(Check("sqrt", "f32", 0, 0, 1).ok());
  EXPECT_TRUE(Check("tanh", "bf16", 0, 0, 1).ok());
  EXPECT_TRUE(Check("sine", "f32", 1e-6, 0, 0).ok());  // no result is larger than one
}

TEST(Accuracy, WhatIsNotKeptIsRefused) {
  const absl::Status s = Check("exponential", "f32", 0, 0, 1);
  EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(s.message()), HasSubstr("r: exponential of f32 is exact to 1.5 units of the last place"));
  EXPECT_FALSE(Check("exponential", "f64", 0, 1e-16, 0).ok());
  EXPECT_FALSE(Check("exponential", "f32", 1e-6, 0, 0).ok());  // results may be large
  EXPECT_FALSE(Check("sine", "f32", 1e-8, 0, 0).ok());
  EXPECT_TRUE(Check("exponential", "f8e5m2", 0, 0, 1).ok());
  EXPECT_FALSE(Check("exponential", "f8e5m2", 0, 0.1, 0).ok());
  EXPECT_THAT(std::string(Check("exponential", "c64", 0, 0, 10).message()), HasSubstr("no bound is known"));
}

TEST(Accuracy, EveryFunctionThatTakesOneHasABound) {
  for (const OpInfo& info : Operations()) {
    for (PrimitiveType t : {PrimitiveType::kBF16, PrimitiveType::kF16, PrimitiveType::kF32, PrimitiveType::kF64,
                            PrimitiveType::kF8E4M3FN, PrimitiveType::kF4E2M1FN, PrimitiveType::kF8E8M0FNU})
      EXPECT_EQ(FindErrorBound(info.opcode, t, true).has_value(), info.Has(kResultAccuracy)) << info.text;
  }
}

}  // namespace
}  // namespace backplane::codegen
