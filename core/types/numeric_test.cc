#include "core/types/numeric.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace backplane {
namespace {

// 64-bit FNV-1a checksums of the results of ml_dtypes (numpy for f16). `decode` covers the little-endian f32 of every
// bit pattern, with NaNs as 0x7fc00000. `encode` covers the patterns of the floats of EncodeInputs().
struct Expected {
  PrimitiveType type;
  uint64_t decode, encode;
};
constexpr Expected kExpected[] = {
    {PrimitiveType::kF8E5M2, 0x6c1e56b6fb09c905, 0x295902394a2d9da5},
    {PrimitiveType::kF8E4M3FN, 0xdad1d9c50f749ca5, 0x85276c04d4ee69e5},
    {PrimitiveType::kF8E4M3B11FNUZ, 0xd90d7a600530d158, 0xb6824fdae9870ea5},
    {PrimitiveType::kF8E5M2FNUZ, 0x94ae6fc493d49818, 0x07d4c663be928425},
    {PrimitiveType::kF8E4M3FNUZ, 0xf51851cb11c63018, 0x2dae187cfdc20ea5},
    {PrimitiveType::kF8E4M3, 0x225eaf4799a27e65, 0x817ee9cecd989465},
    {PrimitiveType::kF8E3M4, 0xf47936f19e549625, 0x38fb7c5281dd5225},
    {PrimitiveType::kF4E2M1FN, 0x2403bb76b85dfea5, 0xb5424631fb714525},
    {PrimitiveType::kF8E8M0FNU, 0x6d2c8b41c3f0e5a5, 0x99e29114fd7a7bdb},
    {PrimitiveType::kF6E2M3FN, 0x7ffacb24ad8b0aa5, 0x7f45f86eea98eb75},
    {PrimitiveType::kF6E3M2FN, 0x25da13434201d785, 0x282f67b2dcc70b45},
};
constexpr Expected kExpectedHalf = {PrimitiveType::kF16, 0x1f87f165810ea7c5, 0x0a365e972f335905};
constexpr Expected kExpectedBf16 = {PrimitiveType::kBF16, 0xcf8e09175d8f5ba5, 0xe925e2909c2caa6d};

class Fnv {
 public:
  template <typename T>
  void Add(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) hash_ = (hash_ ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

uint32_t Canonical(float f) { return std::isnan(f) ? 0x7fc00000u : std::bit_cast<uint32_t>(f); }

// All upper halves of a float, each with four lower halves: exact, just above, half way, just below the next.
std::vector<float> EncodeInputs() {
  std::vector<float> inputs;
  for (uint32_t low : {0u, 1u, 0x8000u, 0xffffu}) {
    for (uint32_t high = 0; high < 65536; ++high) inputs.push_back(std::bit_cast<float>((high << 16) | low));
  }
  return inputs;
}

TEST(Numeric, SmallFloatsAgreeWithMlDtypes) {
  const std::vector<float> inputs = EncodeInputs();
  for (const Expected& e : kExpected) {
    Fnv decode, encode;
    for (int i = 0; i < (1 << BitWidth(e.type)); ++i)
      decode.Add(Canonical(SmallBitsToFloat(e.type, static_cast<uint8_t>(i))));
    for (float f : inputs) encode.Add(FloatToSmallBits(e.type, f));
    EXPECT_EQ(decode.value(), e.decode) << Name(e.type);
    EXPECT_EQ(encode.value(), e.encode) << Name(e.type);
  }
}

template <typename T>
void ExpectSixteenBitFormat(const Expected& expected) {
  Fnv decode, encode;
  for (uint32_t i = 0; i < 65536; ++i) {
    T v;
    v.bits = static_cast<uint16_t>(i);
    const float f = static_cast<float>(v);
    decode.Add(Canonical(f));
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(T(f))));
    } else {
      ASSERT_EQ(T(f).bits, i);
    }
  }
  for (float f : EncodeInputs()) {
    if (!std::isnan(f)) encode.Add(T(f).bits);
  }
  EXPECT_EQ(decode.value(), expected.decode);
  EXPECT_EQ(encode.value(), expected.encode);
}

TEST(Numeric, HalfAgreesWithNumpy) { ExpectSixteenBitFormat<f16>(kExpectedHalf); }
TEST(Numeric, Bfloat16AgreesWithMlDtypes) { ExpectSixteenBitFormat<bf16>(kExpectedBf16); }

TEST(Numeric, EverySmallPatternRoundTrips) {
  for (const Expected& e : kExpected) {
    for (int i = 0; i < (1 << BitWidth(e.type)); ++i) {
      const float f = SmallBitsToFloat(e.type, static_cast<uint8_t>(i));
      const uint8_t back = FloatToSmallBits(e.type, f);
      if (std::isnan(f)) {
        EXPECT_TRUE(std::isnan(SmallBitsToFloat(e.type, back))) << Name(e.type) << " " << i;
      } else {
        EXPECT_EQ(back, i) << Name(e.type);
      }
    }
  }
}

// An independent definition: nearest by comparing distances in double, ties to the even pattern.
TEST(Numeric, SmallFloatsRoundToNearestEven) {
  for (const Expected& e : kExpected) {
    if (e.type == PrimitiveType::kF8E8M0FNU) continue;  // without mantissa: ties round up, as the checksum requires
    std::vector<uint8_t> finite;
    for (int i = 0; i < (1 << (BitWidth(e.type) - 1)); ++i) {
      if (std::isfinite(SmallBitsToFloat(e.type, static_cast<uint8_t>(i)))) finite.push_back(static_cast<uint8_t>(i));
    }
    for (size_t k = 0; k + 1 < finite.size(); ++k) {
      const float low = SmallBitsToFloat(e.type, finite[k]), high = SmallBitsToFloat(e.type, finite[k + 1]);
      ASSERT_LT(low, high);
      const float middle = (low + high) / 2;  // exact: few bits
      EXPECT_EQ(FloatToSmallBits(e.type, middle), finite[k] % 2 == 0 ? finite[k] : finite[k + 1]) << Name(e.type);
      EXPECT_EQ(FloatToSmallBits(e.type, std::nextafter(middle, low)), finite[k]) << Name(e.type);
      EXPECT_EQ(FloatToSmallBits(e.type, std::nextafter(middle, high)), finite[k + 1]) << Name(e.type);
    }
  }
}

TEST(Numeric, OverflowAndNanByFormat) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E5M2, 1e30f), 0x7c);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E5M2, nan), 0x7e);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E4M3FN, 464.0f), 0x7e);  // half way to 480: even is 448
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E4M3FN, 464.1f), 0x7f);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E4M3FN, -inf), 0xff);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E4M3FNUZ, -0.0f), 0x00);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E4M3FNUZ, inf), 0x80);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF4E2M1FN, 100.0f), 0x7);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF4E2M1FN, -inf), 0xf);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF6E3M2FN, -1e9f), 0x3f);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E8M0FNU, 0.0f), 0xff);
  EXPECT_EQ(FloatToSmallBits(PrimitiveType::kF8E8M0FNU, 1.0f), 0x7f);
}

TEST(Numeric, RoundToOddAvoidsDoubleRounding) {
  // Exceeds the middle of two neighbours in bf16 (and f16) by less than the last bit of a float.
  const double d = 1.0 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(bf16(static_cast<float>(d)).bits, 0x3f80);  // rounded twice, which is wrong
  EXPECT_EQ(bf16(RoundToOddFloat(d)).bits, 0x3f81);
  EXPECT_EQ(f16(RoundToOddFloat(1.0 + 0x1p-11 + 0x1p-40)).bits, 0x3c01);
  EXPECT_EQ(f16(RoundToOddFloat(1.0 + 0x1p-11 - 0x1p-40)).bits, 0x3c00);
  EXPECT_EQ(RoundToOddFloat(0.5), 0.5f);
  EXPECT_EQ(RoundToOddFloat(1e300), std::numeric_limits<float>::max());
  EXPECT_EQ(RoundToOddFloat(-1e-300), -std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isnan(RoundToOddFloat(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Numeric, SmallIntsWrap) {
  EXPECT_EQ((SmallInt<4, true>(7).value), 7);
  EXPECT_EQ((SmallInt<4, true>(8).value), -8);
  EXPECT_EQ((SmallInt<4, false>(-1).value), 15);
  EXPECT_EQ((SmallInt<2, true>(3).value), -1);
  EXPECT_EQ((SmallInt<1, true>(1).value), -1);
  EXPECT_EQ((SmallInt<1, false>(2).value), 0);
}

TEST(PrimitiveType, NamesRoundTripAndWidths) {
  int count = 0;
  for (int i = 0; i < 256; ++i) {
    const PrimitiveType t = static_cast<PrimitiveType>(i);
    if (!IsValidPrimitiveType(i)) {
      EXPECT_EQ(Name(t), "invalid");
      continue;
    }
    ++count;
    EXPECT_EQ(PrimitiveTypeFromName(Name(t)), t);
    if (IsArrayType(t)) {
      const int bytes =
          DispatchArrayType(t, [](auto tag) { return static_cast<int>(sizeof(typename decltype(tag)::Native)); });
      EXPECT_EQ(bytes, ByteWidth(t)) << Name(t);
      EXPECT_EQ(DispatchArrayType(t, [](auto tag) { return tag.value; }), t);
      EXPECT_EQ(DispatchArrayType(t, [](auto tag) { return kPrimitiveTypeOf<typename decltype(tag)::Native>; }), t);
      EXPECT_EQ(IsSigned(t) + IsUnsigned(t) + IsFloat(t) + IsComplex(t) + (t == PrimitiveType::kPred), 1);
    }
  }
  EXPECT_EQ(count, 35);
  EXPECT_EQ(PrimitiveTypeFromName("f31"), std::nullopt);
  EXPECT_EQ(BitWidth(PrimitiveType::kS4), 4);
  EXPECT_EQ(ByteWidth(PrimitiveType::kS4), 1);
  EXPECT_EQ(BitWidth(PrimitiveType::kToken), 0);
  EXPECT_EQ(ComplexPart(PrimitiveType::kC128), PrimitiveType::kF64);
  EXPECT_EQ(GetComplexType(PrimitiveType::kF32), PrimitiveType::kC64);
  EXPECT_EQ(GetComplexType(PrimitiveType::kF16), PrimitiveType::kInvalid);
}

}  // namespace
}  // namespace backplane
