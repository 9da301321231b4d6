// Quantized programs: what they compute, and the constraints on their types.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs `body` in @main(arguments) -> result; Q1, Q2 ... stand for the types given.
Literal Interpret(absl::string_view arguments, absl::string_view result, absl::string_view body,
                  std::vector<std::pair<std::string, std::string>> types, std::vector<Literal> values) {
  const std::string program = absl::StrReplaceAll(
      absl::StrCat("func.func public @main(", arguments, ") -> ", result, " {\n", body, "\n}\n"), types);
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  EXPECT_TRUE(m.ok()) << m.status() << "\n" << program;
  if (!m.ok()) return Literal();
  absl::StatusOr<Literal> r = Evaluate(**m, values);
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? *std::move(r) : Literal();
}

std::vector<double> Numbers(const Literal& x) {
  std::vector<double> out;
  for (int64_t i = 0; x.valid() && i < x.num_elements(); ++i) out.push_back(x.GetAsDouble(i));
  return out;
}

Literal Floats(std::vector<float> v) { return Literal::FromValues<float>({static_cast<int64_t>(v.size())}, v); }
Literal Bytes(std::vector<int8_t> v) { return Literal::FromValues<int8_t>({static_cast<int64_t>(v.size())}, v); }

TEST(Quantized, QuantizeRoundsToEvenAfterTheZeroPointAndClamps) {
  Literal q = Interpret("%a: tensor<8xf32>", "tensor<8xQ>",
                        "%0 = stablehlo.uniform_quantize %a : (tensor<8xf32>) -> tensor<8xQ>\nreturn %0 : tensor<8xQ>",
                        {{"Q", "!quant.uniform<i8<-100:100>:f32, 0.5:3>"}},
                        {Floats({0, 0.25f, 0.75f, -0.25f, 1, 1000, -1000, NAN})});
  EXPECT_EQ(q.shape().element_type(), PrimitiveType::kS8);
  // x / 0.5 + 3, ties to even: 3, 3.5, 4.5, 2.5, 5.
  std::vector<double> got = Numbers(q);
  got.resize(7);
  EXPECT_THAT(got, ElementsAre(3, 4, 4, 2, 5, 100, -100));
}

TEST(Quantized, DequantizeByAxis) {
  Literal x = Interpret("%a: tensor<2x2xQ>", "tensor<2x2xf32>",
                        "%0 = stablehlo.uniform_dequantize %a : (tensor<2x2xQ>) -> tensor<2x2xf32>\n"
                        "return %0 : tensor<2x2xf32>",
                        {{"Q", "!quant.uniform<i8:f32:1, {0.5:-128,2.0:127}>"}},
                        {Literal::FromValues<int8_t>({2, 2}, {-128, 127, 127, -128})});
  // The difference of 255 does not fit the storage type.
  EXPECT_THAT(Numbers(x), ElementsAre(0, 0, 127.5, -510));
}

TEST(Quantized, UnsignedAndNarrowStorage) {
  Literal q = Interpret("%a: tensor<3xf32>", "tensor<3xQ>",
                        "%0 = stablehlo.uniform_quantize %a : (tensor<3xf32>) -> tensor<3xQ>\nreturn %0 : tensor<3xQ>",
                        {{"Q", "!quant.uniform<u8:f32, 1.0:128>"}}, {Floats({-200, 5, 200})});
  EXPECT_EQ(q.shape().element_type(), PrimitiveType::kU8);
  EXPECT_THAT(Numbers(q), ElementsAre(0, 133, 255));
  q = Interpret("%a: tensor<3xf32>", "tensor<3xQ>",
                "%0 = stablehlo.uniform_quantize %a : (tensor<3xf32>) -> tensor<3xQ>\nreturn %0 : tensor<3xQ>",
                {{"Q", "!quant.uniform<i4:f32, 1.0>"}}, {Floats({-200, 5, 200})});
  EXPECT_EQ(q.shape().element_type(), PrimitiveType::kS4);
  EXPECT_THAT(Numbers(q), ElementsAre(-8, 5, 7));
}

TEST(Quantized, Requantize) {
  Literal q = Interpret(
      "%a: tensor<2xQ1>", "tensor<2xQ2>",
      "%0 = stablehlo.uniform_quantize %a : (tensor<2xQ1>) -> tensor<2xQ2>\nreturn %0 : tensor<2xQ2>",
      {{"Q1", "!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>"}, {"Q2", "!quant.uniform<i8:f32:0, {0.1:-20,0.2:-30}>"}},
      {Bytes({10, 10})});
  EXPECT_THAT(Numbers(q), ElementsAre(20, 45));
}

TEST(Quantized, ArithmeticMeansTheFloats) {
  std::vector<std::pair<std::string, std::string>> types = {{"Q1", "!quant.uniform<i8:f32, 0.5:1>"},
                                                            {"Q2", "!quant.uniform<i8:f32, 0.25:-2>"}};
  // 2, -3 and 0.5, 8: sums 2.5 and 5, in Q2 8 and 18.
  Literal q = Interpret("%a: tensor<2xQ1>, %b: tensor<2xQ2>", "tensor<2xQ2>",
                        "%0 = \"stablehlo.add\"(%a, %b) : (tensor<2xQ1>, tensor<2xQ2>) -> tensor<2xQ2>\n"
                        "return %0 : tensor<2xQ2>",
                        types, {Bytes({5, -5}), Bytes({0, 30})});
  EXPECT_THAT(Numbers(q), ElementsAre(8, 18));
  // Comparing compares values, not integers: 2 < 2.5 though 5 > 8 - 4.
  Literal p =
      Interpret("%a: tensor<2xQ1>, %b: tensor<2xQ2>", "tensor<2xi1>",
                "%0 = \"stablehlo.compare\"(%a, %b) {comparison_direction = #stablehlo<comparison_direction LT>} : "
                "(tensor<2xQ1>, tensor<2xQ2>) -> tensor<2xi1>\nreturn %0 : tensor<2xi1>",
                types, {Bytes({5, 5}), Bytes({8, 4})});
  EXPECT_THAT(Numbers(p), ElementsAre(1, 0));
  // A float on the left, weights on the right.
  Literal y =
      Interpret("%a: tensor<1x2xf32>, %b: tensor<2x1xQ1>", "tensor<1x1xf32>",
                "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1xQ1>) "
                "-> tensor<1x1xf32>\nreturn %0 : tensor<1x1xf32>",
                types, {Literal::FromValues<float>({1, 2}, {1, 10}), Literal::FromValues<int8_t>({2, 1}, {5, -5})});
  EXPECT_THAT(Numbers(y), ElementsAre(2 - 30));
}

TEST(Quantized, DotIntoWiderStorage) {
  Literal q =
      Interpret("%a: tensor<1x2xQ1>, %b: tensor<2x1xQ1>", "tensor<1x1xQ2>",
                "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1x2xQ1>, tensor<2x1xQ1>) "
                "-> tensor<1x1xQ2>\nreturn %0 : tensor<1x1xQ2>",
                {{"Q1", "!quant.uniform<i8:f32, 0.5>"}, {"Q2", "!quant.uniform<i32:f32, 0.25>"}},
                {Literal::FromValues<int8_t>({1, 2}, {100, 50}), Literal::FromValues<int8_t>({2, 1}, {120, 2})});
  EXPECT_EQ(q.shape().element_type(), PrimitiveType::kS32);
  EXPECT_THAT(Numbers(q), ElementsAre(12100));
}

// Where a machine multiplies floats coarsely by default, integers must not suffer.
TEST(Quantized, ContractionsAskForTheHighestPrecision) {
  const absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", R"(
func.func public @main(%a: tensor<1x2x!quant.uniform<i8:f32, 0.5>>, %b: tensor<2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i32:f32, 0.25>> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1x2x!quant.uniform<i8:f32, 0.5>>, tensor<2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1x!quant.uniform<i32:f32, 0.25>>
  return %0 : tensor<1x1x!quant.uniform<i32:f32, 0.25>>
})");
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_THAT((*m)->ToString(), testing::HasSubstr("operand_precision={highest,highest}"));
}

TEST(Quantized, MovementMovesIntegers) {
  Literal q = Interpret("%a: tensor<2xQ>", "tensor<4xQ>",
                        "%0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<2xQ>, tensor<2xQ>) -> tensor<4xQ>\n"
                        "%1 = stablehlo.reverse %0, dims = [0] : tensor<4xQ>\nreturn %1 : tensor<4xQ>",
                        {{"Q", "!quant.uniform<i8:f32, 0.5:7>"}}, {Bytes({1, 2})});
  EXPECT_THAT(Numbers(q), ElementsAre(2, 1, 2, 1));
}

TEST(Quantized, RegionsComputeOnFloatsToo) {
  // 0.5 * (6 - 4) + 0.5 * (8 - 4) = 3, and the initial zero: 3 / 0.5 + 4.
  Literal q =
      Interpret("%a: tensor<2xQ>, %i: tensor<Q>", "tensor<Q>",
                "%0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [0] : (tensor<2xQ>, "
                "tensor<Q>) -> tensor<Q>\nreturn %0 : tensor<Q>",
                {{"Q", "!quant.uniform<i8:f32, 0.5:4>"}}, {Bytes({6, 8}), Literal::FromValues<int8_t>({}, {4})});
  EXPECT_THAT(Numbers(q), ElementsAre(10));
}

TEST(Quantized, ConstantsHoldStorage) {
  Literal x =
      Interpret("", "tensor<2xf32>",
                "%0 = stablehlo.constant() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2xQ>\n"
                "%1 = stablehlo.uniform_dequantize %0 : (tensor<2xQ>) -> tensor<2xf32>\nreturn %1 : tensor<2xf32>",
                {{"Q", "!quant.uniform<i8:f32, 2.0:1>"}}, {});
  EXPECT_THAT(Numbers(x), ElementsAre(0, -6));
}

TEST(Quantized, ConstraintsOnTypes) {
  auto error = [](absl::string_view type) {
    absl::Status s =
        ImportProgram("mlir", absl::StrCat("func.func @main(%a: tensor<2x", type, ">) {\n return\n}\n")).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
    return std::string(s.message());
  };
  EXPECT_THAT(error("!quant.uniform<i8<-200:100>:f32, 1.0>"), HasSubstr("[quantized_c3]"));
  EXPECT_THAT(error("!quant.uniform<i8<5:5>:f32, 1.0:5>"), HasSubstr("[quantized_c3]"));
  EXPECT_THAT(error("!quant.uniform<i8:f32, 0.0>"), HasSubstr("scale 0 is not positive [quantized_c5]"));
  EXPECT_THAT(error("!quant.uniform<i8:f32, -1.0>"), HasSubstr("[quantized_c5]"));
  EXPECT_THAT(error("!quant.uniform<i8<-10:10>:f32, 1.0:11>"), HasSubstr("zero point 11 lies outside"));
  EXPECT_THAT(error("!quant.uniform<i8:f32, {1.0,2.0}>"), HasSubstr("[quantized_c10]"));
  EXPECT_THAT(error("!quant.uniform<i8:f32:1, {1.0,2.0}>"), HasSubstr("[quantized_c12]"));
  EXPECT_THAT(error("!quant.uniform<i8:f32:0, {1.0,2.0,3.0}>"),
              HasSubstr("3 scales, dimension 0 has size 2 [quantized_c13]"));
}

TEST(Quantized, QuantizationsMustAgreeWhereIntegersMove) {
  auto import = [](absl::string_view body, absl::string_view result) {
    return ImportProgram(
               "mlir", absl::StrCat("func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>, %f: tensor<2xf64>) -> ",
                                    result, " {\n", body, "\n}\n"))
        .status();
  };
  EXPECT_THAT(
      std::string(import("%0 = stablehlo.reshape %a : (tensor<2x!quant.uniform<i8:f32, 1.0>>) -> "
                         "tensor<1x2x!quant.uniform<i8:f32, 2.0>>\nreturn %0 : tensor<1x2x!quant.uniform<i8:f32, 2.0>>",
                         "tensor<1x2x!quant.uniform<i8:f32, 2.0>>")
                      .message()),
      HasSubstr("quantizations differ"));
  EXPECT_THAT(
      std::string(
          import("%0 = stablehlo.uniform_quantize %f : (tensor<2xf64>) -> tensor<2x!quant.uniform<i8:f32, 2.0>>\n"
                 "return %0 : tensor<2x!quant.uniform<i8:f32, 2.0>>",
                 "tensor<2x!quant.uniform<i8:f32, 2.0>>")
              .message()),
      HasSubstr("f64[2]"));
  EXPECT_THAT(std::string(import("%0 = stablehlo.uniform_dequantize %f : (tensor<2xf64>) -> tensor<2xf64>\nreturn %0 : "
                                 "tensor<2xf64>",
                                 "tensor<2xf64>")
                              .message()),
              HasSubstr("expected a quantized tensor"));
}

}  // namespace
}  // namespace backplane
