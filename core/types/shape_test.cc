#include "core/types/shape.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;

Shape Parsed(absl::string_view text) {
  absl::StatusOr<Shape> s = ParseShape(text);
  EXPECT_TRUE(s.ok()) << text << ": " << s.status();
  return s.ok() ? *s : Shape();
}

TEST(Shape, TextRoundTrips) {
  for (absl::string_view text : {"f32[]",
                                 "f32[2,3]",
                                 "f32[2,3]{1,0}",
                                 "bf16[128,256]{0,1:T(8,128)(2,1)}",
                                 "s4[8]{0:E(4)}",
                                 "f32[4]{0:S(5)}",
                                 "f32[16,8]{1,0:T(8,*)E(32)S(1)}",
                                 "pred[<=5,3]{1,0}",
                                 "(f32[2]{0}, s32[], (token[], opaque[]))",
                                 "()",
                                 "f32[0,3]{1,0}",
                                 "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[], f32[])",
                                 "f32[]{:S(2)}",
                                 "f6e2m3fn[3]",
                                 "c128[1]{0}",
                                 "f32[]{:T(128)}",
                                 "f32[2,3]{1,0:L(1024)}",
                                 "f32[2,3]{1,0:T(8,128)L(4)#(u32)*(u64)E(32)S(1)}",
                                 "f32[2,3]{1,0:#(u32)}",
                                 "f32[2,3]{1,0:*(u64)}",
                                 "f32[2,3]{1,0:S(1)SC(0:2)}",
                                 "f32[2,3]{1,0:SC(0:1)(1:1,2)}",
                                 "f32[2,3]{1,0:SC(1:1,2)M(1024)}",
                                 "f32[2,<=3]{1,0:M(8)}",
                                 "f32[2,3]{1,0:SC(0:)}",
                                 "f32[2,3]{1,0:T(*,2)}",
                                 "f32[2,3]{1,0:T(*,2)L(4)#(u32)*(u64)E(32)S(1)SC(0:1)(1:1,2)M(24)}",
                                 "f32[2,3]{1,0:T(8,128)(2,1)(4)}"}) {
    EXPECT_EQ(Parsed(text).ToString(true), text);
  }
  EXPECT_EQ(Parsed(" ( f32[ 2 , 3 ] , token[] ) ").ToString(), "(f32[2,3], token[])");
  EXPECT_EQ(Shape(PrimitiveType::kF32, {2, 3, 5, 7}).ToString(), "f32[2,3,5,7]");  // sizes by increasing dimension
  // Default values are not printed.
  for (absl::string_view text : {"f32[3]{0:L(1)}", "f32[3]{0:M(0)}", "f32[3]{0:S(0)}", "f32[3]{0:E(0)}", "f32[3]{0:}",
                                 "f32[3]{0:D(D)}", "f32[3]{ 0 }", "f32[3]{0:D(D)L(1)E(0)S(0)M(0)}"}) {
    EXPECT_EQ(Parsed(text).ToString(true), "f32[3]{0}") << text;
  }
  EXPECT_EQ(Parsed("f32[2,3]{1, 0 : T(8, 128) ( 2,1 ) SC ( 0 : 1 )}").ToString(true),
            "f32[2,3]{1,0:T(8,128)(2,1)SC(0:1)}");
}

// Comparison considers all fields, but only those that move elements make a layout differ from row-major.
TEST(Shape, LayoutFieldsCount) {
  const Shape plain = Parsed("f32[2,3]{1,0}");
  for (absl::string_view text :
       {"f32[2,3]{1,0:L(4)}", "f32[2,3]{1,0:#(u32)}", "f32[2,3]{1,0:*(u32)}", "f32[2,3]{1,0:E(32)}",
        "f32[2,3]{1,0:S(1)}", "f32[2,3]{1,0:SC(0:1)}", "f32[2,3]{1,0:M(8)}", "f32[2,3]{1,0:T(2)}", "f32[2,3]{0,1}"}) {
    EXPECT_FALSE(Parsed(text).Identical(plain)) << text;
    EXPECT_TRUE(Parsed(text) == plain) << text;
  }
  for (absl::string_view text : {"f32[2,3]{1,0:#(u32)}", "f32[2,3]{1,0:S(1)}", "f32[2,3]{1,0:SC(0:1)}"})
    EXPECT_TRUE(Parsed(text).layout().IsRowMajor()) << text;
  for (absl::string_view text : {"f32[2,3]{1,0:L(4)}", "f32[2,3]{1,0:M(8)}", "f32[2,3]{1,0:T(2)}", "f32[2,3]{0,1}"})
    EXPECT_FALSE(Parsed(text).layout().IsRowMajor()) << text;
}

TEST(Shape, ParseErrors) {
  for (absl::string_view text :
       {"", "f32", "f33[2]", "f32[2", "f32[-1]", "f32[2]{1}", "f32[2,2]{0,0}", "f32[2]{0", "f32[2]x", "(f32[2]",
        "token[2]", "f32[2]{0:Q(1)}", "f32[99999999999999999999]", "f32[4611686018427387904,4611686018427387904]",
        "tuple[]", "f32[2]{0:T(0)}", "token[]{0}", "f32[1,]", "(f32[],)",
        // Malformed, repeated and misordered fields of layouts, and layouts that do not fit the array.
        "f32[2,3]{1,0:S(1)T(8,128)}", "f32[2,3]{1,0:E(4)T(8,128)}", "f32[2,3]{1,0:T(2)S(1)T(2)}",
        "f32[2,3]{1,0:T(8,128}", "f32[2,3]{1,0:T8,128)}", "f32[2,3]{1,0:T(8,-1)}", "f32[2,3]{1,0:T(0,1)}",
        "f32[2,3]{1,0:T(99999999999999999999)}", "f32[2,3]{1,0:E()}", "f32[2,3]{1,0:E(-4)}", "f32[2,3]{1,0:S(-1)}",
        "f32[2,3]{1,0:L(0)}", "f32[2,3]{1,0:L}", "f32[2,3]{1,0:L(4)L(4)}", "f32[2,3]{1,0:#(f32)}",
        "f32[2,3]{1,0:#(u33)}", "f32[2,3]{1,0:#u32}", "f32[2,3]{1,0:*(u32)#(u32)}", "f32[2,3]{1,0:*(u32}",
        "f32[2,3]{1,0:SC(0)}", "f32[2,3]{1,0:SC(2:1)}", "f32[2,3]{1,0:SC(0:5)}", "f32[2,3]{1,0:SC(1:2,1)}",
        "f32[2,3]{1,0:SC(0:1}", "f32[2,3]{1,0:SC}", "f32[2,3]{1,0:M(-8)}", "f32[2,3]{1,0:M(8)S(1)}",
        "f32[2,3]{1,0:P(f32[6])}", "f32[2,3]{1}", "f32[2,3]{2,1}", "f32[2,3]{-1,0}", "f32[2,3]{1,0,}"}) {
    EXPECT_EQ(ParseShape(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseShape("f32[?]").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ParseShape("f32[2,3]{1,0:D(D,C)}").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(ParseShape(std::string(200000, '(')).status().message(), HasSubstr("nested too deep"));
}

TEST(Shape, ConsumeTakesOneShape) {
  absl::string_view text = "f32[2]{0} parameter(0)";
  EXPECT_EQ(ConsumeShape(&text)->ToString(true), "f32[2]{0}");
  EXPECT_EQ(text, " parameter(0)");
  text = "f32[2] {";  // the brace of a computation's body is no layout
  EXPECT_FALSE(ConsumeShape(&text)->has_layout());
  EXPECT_EQ(text, " {");
}

TEST(Shape, ValidateRejects) {
  EXPECT_TRUE(Shape(PrimitiveType::kF32, {0, int64_t{1} << 40}).Validate().ok());
  EXPECT_FALSE(Shape(PrimitiveType::kF32, {-1}).Validate().ok());
  EXPECT_FALSE(Shape(PrimitiveType::kF32, {int64_t{1} << 61}).Validate().ok());
  EXPECT_FALSE(Shape(PrimitiveType::kF32, {0, int64_t{1} << 40, int64_t{1} << 40}).Validate().ok());
  EXPECT_FALSE(Shape().Validate().ok());
  EXPECT_FALSE(Shape(PrimitiveType::kToken, {1}).Validate().ok());
  EXPECT_FALSE(Shape::Tuple({Shape()}).Validate().ok());
  Shape s(PrimitiveType::kF32, {2, 2});
  s.mutable_layout().minor_to_major = {0};
  EXPECT_FALSE(s.Validate().ok());
}

TEST(Shape, EqualityAndLayouts) {
  Shape a = Parsed("f32[2,3]{0,1}"), b = Parsed("f32[2,3]{1,0}");
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a.Identical(b));
  EXPECT_TRUE(b.IsRowMajor());
  EXPECT_FALSE(a.IsRowMajor());
  EXPECT_TRUE(a.WithoutLayout().IsRowMajor());
  a.set_row_major();
  EXPECT_TRUE(a.Identical(b));
  EXPECT_FALSE(a.WithoutLayout().has_layout());
  EXPECT_FALSE(Parsed("f32[<=2]") == Parsed("f32[2]"));
  Shape d = Parsed("f32[<=2]");
  EXPECT_TRUE(d.HasDynamicDimensions());
  d.set_dynamic(0, false);
  EXPECT_TRUE(d == Parsed("f32[2]"));
  Shape t = Parsed("(f32[2]{0}, f32[])");
  t.clear_layout();
  EXPECT_EQ(t.ToString(true), "(f32[2], f32[])");
}

TEST(Shape, SizesStridesAndLeaves) {
  const Shape s = Parsed("s16[4,5,6]");
  EXPECT_EQ(s.num_elements(), 120);
  EXPECT_EQ(s.byte_size(), 240);
  EXPECT_THAT(RowMajorStrides(s.dimensions()), testing::ElementsAre(30, 6, 1));
  std::string leaves;
  ForEachLeaf(Parsed("(f32[], (s32[], token[]), ())"), [&](const Shape& leaf, const std::vector<int64_t>& index) {
    leaves += leaf.ToString() + "@";
    for (int64_t i : index) leaves += std::to_string(i);
    leaves += " ";
  });
  EXPECT_EQ(leaves, "f32[]@0 s32[]@10 token[]@11 ");
  EXPECT_EQ((ProgramShape{{s, Shape::Token()}, {"x"}, Shape::Scalar(PrimitiveType::kF32)}.ToString()),
            "(x: s16[4,5,6], p1: token[]) -> f32[]");
}

}  // namespace
}  // namespace backplane
