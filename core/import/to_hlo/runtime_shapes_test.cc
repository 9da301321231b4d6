// dynamic_* operations of static shape whose amounts are values of the running program, against the same operation with
// the amounts written down; and bits that become numbers.
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Literal Interpret(absl::string_view arguments, absl::string_view result, absl::string_view body,
                  std::vector<Literal> values) {
  const std::string program = absl::StrCat("func.func public @main(", arguments, ") -> ", result, " {\n", body,
                                           "\nreturn %y : ", result, "\n}\n");
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  EXPECT_TRUE(m.ok()) << m.status() << "\n" << program;
  if (!m.ok()) return Literal();
  absl::StatusOr<Literal> r = Evaluate(**m, values);
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? *std::move(r) : Literal();
}

Literal Indices(std::vector<int64_t> v) { return Literal::FromValues<int64_t>({static_cast<int64_t>(v.size())}, v); }

Literal Matrix(int64_t rows, int64_t columns) {
  Literal x(Shape(PrimitiveType::kF32, {rows, columns}));
  for (int64_t i = 0; i < rows * columns; ++i) x.SetFromDouble(i, static_cast<double>(i + 1));
  return x;
}

TEST(RuntimeShapes, SliceWithStrides) {
  Literal y =
      Interpret("%x: tensor<4x5xf32>, %s: tensor<2xi64>, %l: tensor<2xi64>, %t: tensor<2xi64>", "tensor<2x3xf32>",
                "%y = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<4x5xf32>, tensor<2xi64>, tensor<2xi64>, "
                "tensor<2xi64>) -> tensor<2x3xf32>",
                {Matrix(4, 5), Indices({1, 0}), Indices({4, 5}), Indices({2, 2})});
  Literal want =
      Interpret("%x: tensor<4x5xf32>", "tensor<2x3xf32>",
                "%y = stablehlo.slice %x [1:4:2, 0:5:2] : (tensor<4x5xf32>) -> tensor<2x3xf32>", {Matrix(4, 5)});
  EXPECT_EQ(y, want) << y.ToString() << want.ToString();
}

TEST(RuntimeShapes, PadEveryWay) {
  struct Case {
    std::vector<int64_t> low, high, interior, dims;
  };
  for (const Case& c : std::vector<Case>{{{0, 0}, {0, 0}, {0, 0}, {2, 3}},
                                         {{1, 2}, {3, 0}, {0, 0}, {6, 5}},
                                         {{0, 1}, {0, 1}, {2, 1}, {4, 7}},
                                         {{-1, -2}, {1, 1}, {0, 0}, {2, 2}},
                                         {{-1, 0}, {-1, 2}, {3, 1}, {3, 7}}}) {
    const std::string type = absl::StrCat("tensor<", absl::StrJoin(c.dims, "x"), "xf32>");
    Literal value = Literal::Scalar(PrimitiveType::kF32, -9);
    Literal y =
        Interpret("%x: tensor<2x3xf32>, %v: tensor<f32>, %l: tensor<2xi64>, %h: tensor<2xi64>, %i: tensor<2xi64>", type,
                  absl::StrCat("%y = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<2x3xf32>, tensor<f32>, "
                               "tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> ",
                               type),
                  {Matrix(2, 3), value, Indices(c.low), Indices(c.high), Indices(c.interior)});
    Literal want =
        Interpret("%x: tensor<2x3xf32>, %v: tensor<f32>", type,
                  absl::StrCat("%y = stablehlo.pad %x, %v, low = [", absl::StrJoin(c.low, ", "), "], high = [",
                               absl::StrJoin(c.high, ", "), "], interior = [", absl::StrJoin(c.interior, ", "),
                               "] : (tensor<2x3xf32>, tensor<f32>) -> ", type),
                  {Matrix(2, 3), value});
    EXPECT_EQ(y, want) << y.ToString() << want.ToString();
  }
}

TEST(RuntimeShapes, PadOfNothing) {
  Literal y =
      Interpret("%x: tensor<0xf32>, %v: tensor<f32>, %l: tensor<1xi64>", "tensor<2xf32>",
                "%y = stablehlo.dynamic_pad %x, %v, %l, %l, %l : (tensor<0xf32>, tensor<f32>, tensor<1xi64>, "
                "tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>",
                {Literal(Shape(PrimitiveType::kF32, {0})), Literal::Scalar(PrimitiveType::kF32, 3), Indices({1})});
  EXPECT_EQ(y, Literal::FromValues<float>({2}, {3, 3}));
}

TEST(RuntimeShapes, ConvolutionPaddedAtRuntime) {
  const char* attributes =
      "{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, "
      "feature_group_count = 1 : i64, lhs_dilation = array<i64: 2>, window_strides = array<i64: 1>";
  std::vector<float> x = {1, 2, 3, 4}, k = {1, 10, 100};
  const std::vector<Literal> values = {Literal::FromValues<float>({1, 4, 1}, x),
                                       Literal::FromValues<float>({3, 1, 1}, k)};
  std::vector<Literal> with_padding = values;
  with_padding.push_back(Literal::FromValues<int64_t>({1, 2}, {2, 1}));
  Literal y =
      Interpret("%x: tensor<1x4x1xf32>, %k: tensor<3x1x1xf32>, %p: tensor<1x2xi64>", "tensor<1x8x1xf32>",
                absl::StrCat("%y = \"stablehlo.dynamic_conv\"(%x, %k, %p) ", attributes,
                             "} : (tensor<1x4x1xf32>, tensor<3x1x1xf32>, tensor<1x2xi64>) -> tensor<1x8x1xf32>"),
                with_padding);
  Literal want = Interpret("%x: tensor<1x4x1xf32>, %k: tensor<3x1x1xf32>", "tensor<1x8x1xf32>",
                           absl::StrCat("%y = \"stablehlo.convolution\"(%x, %k) ", attributes,
                                        ", padding = dense<[[2, 1]]> : tensor<1x2xi64>} : (tensor<1x4x1xf32>, "
                                        "tensor<3x1x1xf32>) -> tensor<1x8x1xf32>"),
                           values);
  EXPECT_EQ(y, want) << y.ToString() << want.ToString();
}

TEST(RuntimeShapes, GatherWhoseSizesTheResultShows) {
  Literal y = Interpret(
      "%x: tensor<4x5xf32>, %i: tensor<2xi64>, %s: tensor<2xi64>", "tensor<2x3xf32>",
      "%y = \"stablehlo.dynamic_gather\"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1], "
      "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x5xf32>, "
      "tensor<2xi64>, tensor<2xi64>) -> tensor<2x3xf32>",
      {Matrix(4, 5), Indices({3, 1}), Indices({1, 3})});
  EXPECT_EQ(y, Literal::FromValues<float>({2, 3}, {16, 17, 18, 6, 7, 8}));
}

TEST(RuntimeShapes, AmountsMustBeVectors) {
  absl::Status s =
      ImportProgram("mlir",
                    "func.func @main(%x: tensor<4x5xf32>, %s: tensor<3xi64>) -> tensor<2x3xf32> {\n %y = "
                    "stablehlo.real_dynamic_slice %x, %s, %s, %s : (tensor<4x5xf32>, tensor<3xi64>, tensor<3xi64>, "
                    "tensor<3xi64>) -> tensor<2x3xf32>\n return %y : tensor<2x3xf32>\n}\n")
          .status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("start_indices is s64[3], expected a vector of 2 integers"));
}

TEST(BitcastBits, ThereAndBack) {
  Literal bits = Interpret("%x: tensor<2xui8>", "tensor<2x8xi1>",
                           "%y = stablehlo.bitcast_convert %x : (tensor<2xui8>) -> tensor<2x8xi1>",
                           {Literal::FromValues<uint8_t>({2}, {0x35, 0x80})});
  std::string text;
  for (int64_t i = 0; bits.valid() && i < 16; ++i) text += bits.GetAsInt(i) != 0 ? '1' : '0';
  EXPECT_EQ(text, "1010110000000001");
  Literal back = Interpret("%x: tensor<2x8xi1>", "tensor<2xi8>",
                           "%y = stablehlo.bitcast_convert %x : (tensor<2x8xi1>) -> tensor<2xi8>", {bits});
  EXPECT_EQ(back, Literal::FromValues<int8_t>({2}, {0x35, -128}));
  Literal number = Interpret("%x: tensor<f64>", "tensor<f64>",
                             "%b = stablehlo.bitcast_convert %x : (tensor<f64>) -> tensor<64xi1>\n"
                             "%y = stablehlo.bitcast_convert %b : (tensor<64xi1>) -> tensor<f64>",
                             {Literal::Scalar(PrimitiveType::kF64, -1.75e100)});
  EXPECT_EQ(number, Literal::Scalar(PrimitiveType::kF64, -1.75e100));
  absl::Status s =
      ImportProgram("mlir",
                    "func.func @main(%x: tensor<7xi1>) -> tensor<i8> {\n %y = stablehlo.bitcast_convert %x : "
                    "(tensor<7xi1>) -> tensor<i8>\n return %y : tensor<i8>\n}\n")
          .status();
  EXPECT_THAT(std::string(s.message()), HasSubstr("[bitcast_convert_c1]"));
}

}  // namespace
}  // namespace backplane
