#include "conformance/kit/case_literal.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::conformance {
namespace {

using ::testing::HasSubstr;

std::string Text(absl::string_view literal) {
  const absl::StatusOr<Array> array = ParseArray(literal);
  if (!array.ok()) return std::string(array.status().message());
  std::string text;
  for (int64_t i = 0; i < array->size(); ++i) text += (i ? " " : "") + FormatElement(*array, i);
  return text;
}

TEST(CaseLiteral, Values) {
  EXPECT_EQ(Text("f32[] 1.5"), "1.5");
  EXPECT_EQ(Text("s32[2,3] {{1,2,3},{4,5,6}}"), "1 2 3 4 5 6");
  EXPECT_EQ(Text("s32[2,3] { 1, 2, 3, 4, 5, 6 }"), "1 2 3 4 5 6");
  EXPECT_EQ(Text("f32[6] {nan, inf, -inf, -0, 0x7f800000, 1e-3}"), "nan inf -inf -0 inf 0.00100000005");
  EXPECT_EQ(Text("f16[5] {max, -max, tiny, denorm, eps}"), "65504 -65504 6.10351562e-05 5.96046448e-08 0.0009765625");
  EXPECT_EQ(Text("s8[5] {max, min, max-1, min+2, 0xff}"), "127 -128 126 -126 -1");
  EXPECT_EQ(Text("u64[3] {max, 0, 18446744073709551615}"), "18446744073709551615 0 18446744073709551615");
  EXPECT_EQ(Text("s64[2] {min, max}"), "-9223372036854775808 9223372036854775807");
  EXPECT_EQ(Text("s2[4] {-2,-1,0,1}"), "-2 -1 0 1");
  EXPECT_EQ(Text("pred[4] {true,false,1,0}"), "true false true false");
  EXPECT_EQ(Text("c64[3] {(1,-2),(nan,inf),3}"), "(1,-2) (nan,inf) (3,0)");
  EXPECT_EQ(Text("f8e4m3fn[3] {1000, 0.3, -inf}"), "nan 0.3125 nan");
  EXPECT_EQ(Text("f32[0,3] {}"), "");
  EXPECT_EQ(Text("f32[2,0] {{},{}}"), "");
  EXPECT_EQ(Text("s32[2,2] iota"), "0 1 2 3");
  EXPECT_EQ(Text("f32[3] iota -1 0.5"), "-1 -0.5 0");
  EXPECT_EQ(Text("bf16[3] all 2"), "2 2 2");
  EXPECT_EQ(Text("s8[3] random 1 -3 3"), Text("s8[3] random 1 -3 3"));
  EXPECT_NE(Text("f32[3] random 1 -3 3"), Text("f32[3] random 2 -3 3"));
}

TEST(CaseLiteral, Errors) {
  const std::pair<const char*, const char*> rows[] = {
      {"f32", "expected a shape"},
      {"f99[2] {1,2}", "'f99' is no element type"},
      {"f32[2", "']' is missing"},
      {"f32[-1] {}", "is not the size of a dimension"},
      {"f32[2,] {1,2}", "dimension is missing"},
      {"f32[99999999999] iota", "more than 67108864 elements"},
      {"f32[9999,9999,9999,9999,9999,9999] iota", "more than 67108864 elements"},
      {"f32[2]", "expected '{'"},
      {"f32[2] {1}", "a list of 1 elements where the shape has 2"},
      {"f32[2] {1,2,3}", "more than 2 elements"},
      {"f32[2,2] {{1,2},{3}}", "a list of 1 elements where the shape has 2"},
      {"f32[2] {1,2", "expected ',' or '}'"},
      {"f32[2] {1,2} 3", "what follows the literal"},
      {"f32[1] {x}", "'x' is not a number"},
      {"f32[1] {--1}", "is not a number"},
      {"f16[1] {0x12345}", "more than 16 bits"},
      {"f32[1] {0xzz}", "is not hexadecimal"},
      {"s8[1] {128}", "128 is not in the range of s8"},
      {"s8[1] {1.5}", "'1.5' is not an integer"},
      {"u8[1] {-1}", "'-1' is not an unsigned integer"},
      {"u4[1] {max-16}", "is not an integer"},
      {"s4[20] iota", "8 is not in the range of s4"},
      {"pred[1] {2}", "'2' is not true or false"},
      {"c64[1] {(1)}", "is not (re,im)"},
      {"f32[1] {*}", "'*' in an input"},
      {"f32[2] {}", "an empty list for 2 elements"},
      {"f32[0] {1}", "more than 0 elements"},
      {"f32[1,1] {", "expected"},
      {"f32[1] all", "expected 'all VALUE'"},
      {"f32[1] random 1", "expected 'random SEED LOW HIGH'"},
      {"f8e8m0fnu[1] {-max}", "has no sign"},
  };
  for (const auto& [text, message] : rows) EXPECT_THAT(Text(text), HasSubstr(message)) << text;
  EXPECT_FALSE(ParseExpected("f32[1] {1} within").ok());
  EXPECT_FALSE(ParseExpected("f32[1] {1} within ulp").ok());
  EXPECT_FALSE(ParseExpected("f32[1] {1} within ulp -1").ok());
  EXPECT_FALSE(ParseExpected("s32[1] {1} within ulp 1").ok());
  EXPECT_FALSE(ParseExpected("f32[1] any within ulp 1").ok());
  EXPECT_FALSE(ParseExpected("pred[1] uniform 0 1").ok());
  EXPECT_FALSE(ParseExpected("f32[2]").ok());
  EXPECT_TRUE(ParseExpected("f32[2]", /*need_values=*/false).ok());
}

bool Agrees(absl::string_view expected, absl::string_view actual) {
  const absl::StatusOr<Expected> e = ParseExpected(expected);
  const absl::StatusOr<Array> a = ParseArray(actual);
  EXPECT_TRUE(e.ok()) << e.status();
  EXPECT_TRUE(a.ok()) << a.status();
  return Compare(*e, *a).ok();
}

TEST(CaseCompare, Exact) {
  EXPECT_TRUE(Agrees("f32[2] {1,nan}", "f32[2] {1,0xffc12345}"));
  EXPECT_FALSE(Agrees("f32[1] {0}", "f32[1] {-0}"));
  EXPECT_FALSE(Agrees("f32[1] {nan}", "f32[1] {1}"));
  EXPECT_FALSE(Agrees("f32[1] {1}", "f32[1] {nan}"));
  EXPECT_FALSE(Agrees("f32[1] {1}", "f32[1] {0x3f800001}"));
  EXPECT_FALSE(Agrees("f32[1] {1}", "f64[1] {1}"));
  EXPECT_FALSE(Agrees("f32[1] {1}", "f32[1,1] {1}"));
  EXPECT_TRUE(Agrees("f32[3] {1,*,3}", "f32[3] {1,nan,3}"));
  EXPECT_FALSE(Agrees("f32[3] {1,*,3}", "f32[3] {1,nan,2}"));
  EXPECT_TRUE(Agrees("s8[1] {-1}", "s8[1] {0xff}"));
  EXPECT_FALSE(Agrees("s64[1] {max}", "s64[1] {max-1}"));
  EXPECT_TRUE(Agrees("f32[2] any", "f32[2] {1,nan}"));
}

TEST(CaseCompare, Within) {
  EXPECT_TRUE(Agrees("f32[1] {1} within ulp 2", "f32[1] {0x3f800002}"));
  EXPECT_FALSE(Agrees("f32[1] {1} within ulp 2", "f32[1] {0x3f800003}"));
  EXPECT_TRUE(Agrees("f32[1] {0} within ulp 1", "f32[1] {-0}"));
  EXPECT_TRUE(Agrees("f32[1] {0} within ulp 2", "f32[1] {-denorm}"));
  EXPECT_FALSE(Agrees("f32[1] {inf} within ulp 4", "f32[1] {max}"));
  EXPECT_FALSE(Agrees("f32[1] {inf} within rel 1", "f32[1] {-inf}"));
  EXPECT_FALSE(Agrees("f32[1] {nan} within rel 1", "f32[1] {1}"));
  EXPECT_TRUE(Agrees("f32[1] {100} within rel 0.01", "f32[1] {101}"));
  EXPECT_FALSE(Agrees("f32[1] {100} within rel 0.01", "f32[1] {101.5}"));
  EXPECT_TRUE(Agrees("f32[1] {100} within abs 1 rel 0.01", "f32[1] {102}"));
  EXPECT_TRUE(Agrees("s32[1] {100} within abs 1", "s32[1] {99}"));
  EXPECT_FALSE(Agrees("s32[1] {100} within abs 1", "s32[1] {98}"));
  EXPECT_TRUE(Agrees("c64[1] {(1,0)} within ulp 1", "c64[1] {(1,1e-7)}"));
  EXPECT_FALSE(Agrees("c64[1] {(1,0)} within ulp 1", "c64[1] {(1,1e-6)}"));
  EXPECT_TRUE(Agrees("c64[1] {(3,4)} within rel 0.1", "c64[1] {(3.3,4.3)}"));
  EXPECT_FALSE(Agrees("c64[1] {(3,4)} within rel 0.1", "c64[1] {(3.4,4.4)}"));
  EXPECT_FALSE(Agrees("c64[1] {(inf,0)} within rel 0.1", "c64[1] {(inf,nan)}"));
}

TEST(CaseCompare, Distributions) {
  EXPECT_TRUE(Agrees("f32[4000] uniform -1 3", "f32[4000] random 1 -1 3"));
  EXPECT_FALSE(Agrees("f32[4000] uniform -1 3", "f32[4000] random 1 -1 2.7"));
  EXPECT_FALSE(Agrees("f32[4000] uniform -1 3", "f32[4000] random 1 -1 3.1"));
  EXPECT_FALSE(Agrees("f32[4000] uniform 0 1", "f32[4000] all 0.5"));
  EXPECT_TRUE(Agrees("s32[4000] uniform 0 10", "s32[4000] random 3 0 10"));
  EXPECT_FALSE(Agrees("s32[4000] uniform 0 10", "s32[4000] random 3 1 10"));
  EXPECT_TRUE(Agrees("f8e4m3fn[4000] uniform 0 448", "f8e4m3fn[4000] random 3 0 430"));
  EXPECT_FALSE(Agrees("f32[4000] normal 0 1", "f32[4000] random 1 -2 2"));
}

TEST(CaseCompare, Messages) {
  const auto message = [](absl::string_view e, absl::string_view a) {
    return std::string(Compare(*ParseExpected(e), *ParseArray(a)).message());
  };
  EXPECT_EQ(message("f32[2,2] {{1,2},{3,4}}", "f32[2,2] {{1,2.5},{3,5}}"),
            "f32[2,2]: element [0,1] is 2.5, expected 2, 1 more differ");
  EXPECT_EQ(message("f32[2] {1,2}", "f32[1] {1}"), "the result is f32[1], expected f32[2]");
  Array bad{ElementType::kPred, {1}, "\x02"};
  EXPECT_EQ(Compare(*ParseExpected("pred[1] any"), bad).message(), "pred[1]: element [0] is neither 0 nor 1");
  bad.data.clear();
  EXPECT_FALSE(Compare(*ParseExpected("pred[1] any"), bad).ok());
}

}  // namespace
}  // namespace backplane::conformance
