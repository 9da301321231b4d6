#include "core/types/literal.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
Literal Vector(std::initializer_list<T> values) {
  return Literal::FromValues<T>({static_cast<int64_t>(values.size())},
                                absl::MakeConstSpan(values.begin(), values.size()));
}

TEST(Literal, CopiesShareUntilWritten) {
  Literal a = Vector<float>({1, 2, 3});
  Literal b = a;
  EXPECT_EQ(a.bytes(), b.bytes());
  b.mutable_data<float>()[0] = 9;
  EXPECT_NE(a.bytes(), b.bytes());
  EXPECT_EQ(a.data<float>()[0], 1);
  EXPECT_EQ(b.data<float>()[0], 9);
  const std::byte* own = b.bytes();
  b.mutable_data<float>()[1] = 8;
  EXPECT_EQ(b.bytes(), own);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.bytes()) % 64, 0u);
}

TEST(Literal, BorrowedMemoryIsNeverWritten) {
  float memory[2] = {1, 2};
  Literal a = Literal::Borrow(Shape(PrimitiveType::kF32, {2}), memory);
  EXPECT_EQ(a.bytes(), reinterpret_cast<std::byte*>(memory));
  a.mutable_data<float>()[0] = 5;
  EXPECT_EQ(memory[0], 1);
  EXPECT_EQ(a.GetAsDouble(0), 5);
}

TEST(Literal, FromBytesChecksTheSize) {
  const std::byte bytes[8] = {};
  EXPECT_TRUE(Literal::FromBytes(Shape(PrimitiveType::kF32, {2}), bytes).ok());
  EXPECT_EQ(Literal::FromBytes(Shape(PrimitiveType::kF32, {3}), bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Literal::FromBytes(Shape::Token(), {}).ok());
  EXPECT_TRUE(Literal::FromBytes(Shape(PrimitiveType::kF32, {0}), {}).ok());
}

TEST(Literal, ConvertFloatToInteger) {
  const Literal f = Vector<float>({1.9f, -1.9f, 300.0f, -1e20f, static_cast<float>(kNan), static_cast<float>(kInf)});
  const Literal u8 = *f.Convert(PrimitiveType::kU8);
  EXPECT_THAT(u8.data<uint8_t>(), testing::ElementsAre(1, 0, 255, 0, 0, 255));
  EXPECT_THAT(f.Convert(PrimitiveType::kS32)->data<int32_t>(),
              testing::ElementsAre(1, -1, 300, INT32_MIN, 0, INT32_MAX));
  EXPECT_THAT(f.Convert(PrimitiveType::kS64)->data<int64_t>(),
              testing::ElementsAre(1, -1, 300, INT64_MIN, 0, INT64_MAX));
  EXPECT_THAT(f.Convert(PrimitiveType::kU64)->data<uint64_t>(), testing::ElementsAre(1, 0, 300, 0, 0, UINT64_MAX));
  const Literal s4 = *f.Convert(PrimitiveType::kS4);
  EXPECT_EQ(s4.GetAsInt(2), 7);
  EXPECT_EQ(s4.GetAsInt(3), -8);
  EXPECT_THAT(f.Convert(PrimitiveType::kPred)->data<bool>(), testing::Each(true));
}

TEST(Literal, ConvertIntegers) {
  const Literal i = Vector<int64_t>({-1, 256 + 7, int64_t{1} << 40, 16777217});
  EXPECT_THAT(i.Convert(PrimitiveType::kU8)->data<uint8_t>(), testing::ElementsAre(255, 7, 0, 1));
  EXPECT_THAT(i.Convert(PrimitiveType::kS32)->data<int32_t>(), testing::ElementsAre(-1, 263, 0, 16777217));
  EXPECT_EQ(i.Convert(PrimitiveType::kF32)->data<float>()[3], 16777216.0f);
  EXPECT_EQ(i.Convert(PrimitiveType::kU64)->data<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(Vector<uint64_t>({UINT64_MAX}).Convert(PrimitiveType::kF64)->data<double>()[0], 0x1p64);
  EXPECT_EQ(Vector<int32_t>({70000}).Convert(PrimitiveType::kF16)->ToString(), "{inf}");
  EXPECT_EQ(Vector<bool>({true, false}).Convert(PrimitiveType::kBF16)->ToString(), "{1, 0}");
}

TEST(Literal, ConvertComplexAndRefusals) {
  const Literal c = Vector<std::complex<float>>({{1.5f, 2.0f}, {0.0f, 1.0f}});
  EXPECT_THAT(c.Convert(PrimitiveType::kF64)->data<double>(), testing::ElementsAre(1.5, 0));
  // The imaginary part is dropped first, also for pred.
  EXPECT_THAT(c.Convert(PrimitiveType::kPred)->data<bool>(), testing::ElementsAre(true, false));
  EXPECT_EQ(c.Convert(PrimitiveType::kC128)->data<std::complex<double>>()[0], std::complex<double>(1.5, 2));
  EXPECT_FALSE(Literal::Token().Convert(PrimitiveType::kF32).ok());
  EXPECT_FALSE(c.Convert(PrimitiveType::kTuple).ok());
}

TEST(Literal, ConvertKeepsEveryValueAcrossBlocks) {
  Literal l(Shape(PrimitiveType::kS32, {2000}));
  for (int i = 0; i < 2000; ++i) l.mutable_data<int32_t>()[i] = i - 1000;
  const Literal back = *l.Convert(PrimitiveType::kF32)->Convert(PrimitiveType::kS32);
  EXPECT_TRUE(back == l);
}

TEST(Literal, Text) {
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF32, 0.1).ToString(), "0.1");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF16, 0.1).ToString(), "0.099976");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kBF16, 3.14159).ToString(), "3.141");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF32, 1995840).ToString(), "1.99584e+06");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF32, 1 / 3.).ToString(), "0.333333343");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF64, -1e9).ToString(), "-1000000000");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF64, 0.5).ToString(), "0.5");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF8E4M3FN, 0.1).ToString(), "0.102");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF32, -kInf).ToString(), "-inf");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kF64, kNan).ToString(), "nan");
  EXPECT_EQ(Literal::Scalar(PrimitiveType::kPred, 1).ToString(), "true");
  EXPECT_EQ(Vector<bool>({true, false}).ToString(), "{1, 0}");
  EXPECT_EQ(Literal::ScalarInt(PrimitiveType::kU64, -1).ToString(), "18446744073709551615");
  EXPECT_EQ(Vector<std::complex<float>>({{1.5f, -2}}).ToString(), "{(1.5, -2)}");
  EXPECT_EQ(Literal::FromValues<int32_t>({2, 2}, {1, 2, 3, 4}).ToString(), "{ { 1, 2 }, { 3, 4 } }");
  EXPECT_EQ(Literal::Tuple({Literal::ScalarInt(PrimitiveType::kS8, 3), Vector<float>({1})}).ToString(), "( 3, {1} )");
  EXPECT_EQ(Literal::FromValues<int32_t>({2, 2}, {1, 2, 3, 4}).ToString(3), "{...}");
}

// The text of every bit pattern of all 8- and 16-bit types must parse to the same bits.
TEST(Literal, ElementTextRoundTripsExhaustively) {
  for (int n = 0; n < 256; ++n) {
    if (!IsValidPrimitiveType(n)) continue;
    const PrimitiveType type = static_cast<PrimitiveType>(n);
    if (!IsArrayType(type) || BitWidth(type) > 16) continue;
    const int64_t count = type == PrimitiveType::kPred ? 2 : int64_t{1} << BitWidth(type);
    Literal all(Shape(type, {count}));
    for (int64_t i = 0; i < count; ++i) {
      if (IsIntegral(type)) {
        all.SetFromInt(i, i);
      } else {
        for (int b = 0; b < ByteWidth(type); ++b)
          all.mutable_bytes()[i * ByteWidth(type) + b] = static_cast<std::byte>(i >> (8 * b));
      }
    }
    Literal back(all.shape());
    for (int64_t i = 0; i < count; ++i) {
      const std::string text = ElementToString(all, i);
      ASSERT_TRUE(ParseElement(text, &back, i).ok()) << Name(type) << " " << text;
    }
    EXPECT_TRUE(back == all) << Name(type);
  }
}

TEST(Literal, WideElementTextRoundTrips) {
  Literal f = Vector<float>({1e-45f, 3.4028235e38f, 16777216, 1.0f / 3, -0.0f, 1e5f});
  f.mutable_data<float>()[0] = std::bit_cast<float>(0x7fc00123u);
  for (int i = 0; i < 6; ++i) {
    Literal back(f.shape());
    ASSERT_TRUE(ParseElement(ElementToString(f, i), &back, i).ok());
    EXPECT_EQ(std::bit_cast<uint32_t>(back.data<float>()[i]), std::bit_cast<uint32_t>(f.data<float>()[i]));
  }
  EXPECT_EQ(ElementToString(f, 0), "nan(0x400123)");
}

TEST(Literal, ParseElementReadsAllSpellings) {
  Literal f(Shape::Scalar(PrimitiveType::kF32));
  for (auto [text, value] : std::vector<std::pair<const char*, float>>{{"1", 1},
                                                                       {"+1.5", 1.5f},
                                                                       {"-1e-3", -1e-3f},
                                                                       {"0x1.8p3", 12},
                                                                       {".5", .5f},
                                                                       {"1e60", HUGE_VALF},
                                                                       {"1e-60", 0},
                                                                       {"2.", 2}}) {
    ASSERT_TRUE(ParseElement(text, &f, 0).ok()) << text;
    EXPECT_EQ(f.data<float>()[0], value) << text;
  }
  for (const char* text :
       {"", "-", "nanx", "nan(0x)", "1.5.2", "infinity", "1e", "--1", "0x", "true", "nan(0x800000)"}) {
    EXPECT_FALSE(ParseElement(text, &f, 0).ok()) << text;
  }
  Literal s8(Shape::Scalar(PrimitiveType::kS8));
  EXPECT_TRUE(ParseElement("-128", &s8, 0).ok());
  EXPECT_FALSE(ParseElement("128", &s8, 0).ok());
  EXPECT_FALSE(ParseElement("1.0", &s8, 0).ok());
  EXPECT_TRUE(ParseElement("0xff", &s8, 0).ok());
  EXPECT_EQ(s8.GetAsInt(0), -1);
  Literal u4(Shape::Scalar(PrimitiveType::kU4));
  EXPECT_FALSE(ParseElement("16", &u4, 0).ok());
  EXPECT_FALSE(ParseElement("-1", &u4, 0).ok());
  Literal c(Shape::Scalar(PrimitiveType::kC64));
  EXPECT_TRUE(ParseElement("( 1 , -inf )", &c, 0).ok());
  EXPECT_EQ(c.GetAsComplex(0).imag(), -kInf);
  EXPECT_FALSE(ParseElement("(1, 2", &c, 0).ok());
}

TEST(Literal, EqualityAndPredicates) {
  EXPECT_TRUE(Literal::Scalar(PrimitiveType::kF32, kNan) == Literal::Scalar(PrimitiveType::kF32, kNan));
  EXPECT_FALSE(Literal::Scalar(PrimitiveType::kF32, 0.0) == Literal::Scalar(PrimitiveType::kF32, -0.0));
  EXPECT_FALSE(Vector<int32_t>({1}) == Literal::ScalarInt(PrimitiveType::kS32, 1));
  EXPECT_TRUE(Vector<float>({2, 2, 2}).IsAllEqual());
  EXPECT_FALSE(Vector<float>({2, 3}).IsAllEqual());
  EXPECT_TRUE(Vector<float>({0.0f, -0.0f}).IsAll(0));
  EXPECT_FALSE(Vector<float>({2, 2, 3}).IsAll(2));
  EXPECT_FALSE(Vector<int64_t>({(int64_t{1} << 53) + 1}).IsAll(0x1p53));
  EXPECT_FALSE(Vector<uint64_t>({UINT64_MAX}).IsAll(0x1p64));
  EXPECT_TRUE(Vector<uint64_t>({uint64_t{1} << 63}).IsAll(0x1p63));
  EXPECT_FALSE(Literal::Token().IsAll(0));
  EXPECT_FALSE(Literal().valid());
}

TEST(Literal, ReshapeTuplesAndDynamicSizes) {
  const Literal v = Vector<int32_t>({1, 2, 3, 4});
  EXPECT_EQ(v.Reshape({2, 2})->bytes(), v.bytes());
  EXPECT_FALSE(v.Reshape({3}).ok());
  const Literal t = Literal::Tuple({v, Literal::Token()});
  EXPECT_EQ(t.shape().ToString(), "(s32[4], token[])");
  EXPECT_TRUE(t == t);
  EXPECT_TRUE(Literal(t.shape()).elements()[0].IsAll(0));
  Shape dynamic(PrimitiveType::kF32, {4});
  dynamic.set_dynamic(0, true);
  Literal d(dynamic);
  EXPECT_EQ(d.dynamic_size(0), 4);
  Literal e = d;
  e.set_dynamic_size(0, 2);
  EXPECT_EQ(e.dynamic_size(0), 2);
  EXPECT_FALSE(d == e);
}

}  // namespace
}  // namespace backplane
