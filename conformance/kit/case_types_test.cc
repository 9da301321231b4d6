#include "conformance/kit/case_types.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace backplane::conformance {
namespace {

using T = ElementType;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(CaseTypes, EveryTypeStandsAtItsPlaceAndHasAName) {
  for (const ElementInfo& t : AllElementTypes()) {
    EXPECT_EQ(Info(t.type).name, t.name);
    EXPECT_EQ(ElementTypeFromName(t.name), t.type);
    if (t.cls == ElementClass::kFloat && t.kind != FloatKind::kExponentOnly) {
      EXPECT_EQ(1 + t.exponent_bits + t.mantissa_bits, t.bits) << t.name;
    }
  }
  EXPECT_EQ(ElementTypeFromName("f99"), std::nullopt);
  EXPECT_EQ(GetPartType(T::kC128), T::kF64);
  EXPECT_EQ(GetComplexType(T::kF32), T::kC64);
  EXPECT_EQ(GetComplexType(T::kF16), std::nullopt);
  EXPECT_EQ(GetUnsignedType(T::kBF16), T::kU16);
}

// Every value of every narrow format must round to itself, and a value half way between two neighbours to the one with
// the even pattern.
TEST(CaseTypes, NarrowFloatsRoundToNearestEven) {
  for (const ElementInfo& t : AllElementTypes()) {
    if (t.cls != ElementClass::kFloat || t.bits > 16) continue;
    SCOPED_TRACE(std::string(t.name));
    const uint64_t end = LargestFiniteBits(t.type);
    double last = -1;
    for (uint64_t bits = 0; bits <= end; ++bits) {
      ASSERT_FALSE(IsNanBits(t.type, bits));
      const double x = DecodeBits(t.type, bits);
      ASSERT_GT(x, last);
      ASSERT_EQ(RoundToBits(t.type, x), bits);
      if (bits > 0) {
        const double middle = (x + last) / 2;
        const uint64_t even = bits & 1 ? bits - 1 : bits;
        ASSERT_EQ(RoundToBits(t.type, middle), even);
        ASSERT_EQ(RoundToBits(t.type, std::nextafter(middle, kInf)), bits);
        ASSERT_EQ(RoundToBits(t.type, std::nextafter(middle, -kInf)), bits - 1);
        ASSERT_EQ(ComputeUlpDistance(t.type, bits, bits - 1), 1u);
      }
      if (t.kind != FloatKind::kExponentOnly && x > 0) {
        const uint64_t negative = RoundToBits(t.type, -x);
        ASSERT_EQ(DecodeBits(t.type, negative), -x);
        ASSERT_EQ(ComputeUlpDistance(t.type, bits, negative), 2 * bits);
      }
      last = x;
    }
  }
}

struct Row {
  T type;
  double value;
  uint64_t bits;
};

// Values from the published definitions of the formats.
TEST(CaseTypes, EndsOfTheFormats) {
  const Row rows[] = {
      {T::kF8E3M4, 15.5, 0x6f},
      {T::kF8E3M4, 1e30, 0x70},
      {T::kF8E3M4, -kInf, 0xf0},
      {T::kF8E3M4, kNan, 0x78},
      {T::kF8E4M3, 240, 0x77},
      {T::kF8E4M3, 1e30, 0x78},
      {T::kF8E4M3FN, 448, 0x7e},
      {T::kF8E4M3FN, 464, 0x7e},
      {T::kF8E4M3FN, 465, 0x7f},
      {T::kF8E4M3FN, kInf, 0x7f},
      {T::kF8E4M3FN, -kInf, 0xff},
      {T::kF8E4M3FN, -0.0, 0x80},
      {T::kF8E4M3B11FNUZ, 30, 0x7f},
      {T::kF8E4M3B11FNUZ, 1e30, 0x80},
      {T::kF8E4M3FNUZ, 240, 0x7f},
      {T::kF8E4M3FNUZ, kNan, 0x80},
      {T::kF8E4M3FNUZ, -0.0, 0},
      {T::kF8E4M3FNUZ, -1e-30, 0},
      {T::kF8E5M2, 57344, 0x7b},
      {T::kF8E5M2, 1e30, 0x7c},
      {T::kF8E5M2FNUZ, 57344, 0x7f},
      {T::kF8E5M2FNUZ, kInf, 0x80},
      {T::kF4E2M1FN, 6, 7},
      {T::kF4E2M1FN, 1e30, 7},
      {T::kF4E2M1FN, -kInf, 15},
      {T::kF4E2M1FN, kNan, 8},
      {T::kF4E2M1FN, 0.25, 0},
      {T::kF4E2M1FN, 0.75, 2},
      {T::kF8E8M0FNU, 1, 127},
      {T::kF8E8M0FNU, 0, 255},
      {T::kF8E8M0FNU, -1, 255},
      {T::kF8E8M0FNU, kInf, 255},
      {T::kF8E8M0FNU, 0x1p-127, 0},
      {T::kF16, 65504, 0x7bff},
      {T::kF16, 65519, 0x7bff},
      {T::kF16, 65520, 0x7c00},
      {T::kF16, 0x1p-24, 1},
      {T::kF16, 0x1p-25, 0},
      {T::kBF16, 1, 0x3f80},
      {T::kBF16, 1e39, 0x7f80},
      {T::kF32, 1, 0x3f800000},
      {T::kF32, 1e39, 0x7f800000},
      {T::kF32, 0x1p-149, 1},
      {T::kF32, -0.0, 0x80000000},
      {T::kF64, 1, 0x3ff0000000000000},
  };
  for (const Row& row : rows)
    EXPECT_EQ(RoundToBits(row.type, row.value), row.bits) << Info(row.type).name << " " << row.value;
  EXPECT_EQ(ComputeUlp(T::kF32, 1), 0x1p-23);
  EXPECT_EQ(ComputeUlp(T::kF32, 0), 0x1p-149);
  EXPECT_EQ(ComputeUlp(T::kF16, 1e9), 32);
}

TEST(CaseTypes, F32AgreesWithTheProcessor) {
  uint64_t state = 7;
  for (int i = 0; i < 100000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t exponent = 0x380 - 160 + (state >> 32) % 320;  // the range of f32 and beyond both ends
    const double x = DecodeBits(T::kF64, (exponent << 52) | (state & 0x800fffffffffffffu));
    const float f = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    ASSERT_EQ(RoundToBits(T::kF32, x), bits) << x;
    ASSERT_EQ(DecodeBits(T::kF32, bits), static_cast<double>(f));
  }
}

TEST(CaseTypes, ElementsOfArrays) {
  Array a{T::kS4, {2}, std::string(2, '\0')};
  WriteBits(&a, 0, static_cast<uint64_t>(-3));
  WriteBits(&a, 1, 7);
  EXPECT_EQ(a.data, "\xfd\x07");
  EXPECT_EQ(ReadSigned(a, 0), -3);
  a.data[0] = 0x0d;  // the same value without sign extension
  EXPECT_EQ(ReadSigned(a, 0), -3);
  EXPECT_EQ(FormatElement(a, 1), "7");
  Array c{T::kC64, {1}, std::string(8, '\0')};
  WriteBits(&c, 0, 0x3fc00000, 0);
  WriteBits(&c, 0, 0x80000000, 1);
  EXPECT_EQ(FormatElement(c, 0), "(1.5,-0)");
  EXPECT_EQ((Array{T::kF32, {2, 0, 3}, ""}).size(), 0);
  EXPECT_EQ(FormatShape(T::kBF16, {2, 3}), "bf16[2,3]");
}

}  // namespace
}  // namespace backplane::conformance
