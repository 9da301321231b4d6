#include "core/types/numeric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace backplane {
namespace {

enum class Specials : uint8_t {
  kIeee,      // the largest exponent encodes infinity and NaN
  kFn,        // no infinity; all ones is NaN
  kFnuz,      // no infinity, no negative zero; its pattern is NaN
  kFinite,    // neither infinity nor NaN: overflow saturates
  kPowerOnly  // E8M0
};

struct Format {
  int mantissa, exponent, bias;
  Specials specials;
  int bits() const { return mantissa + exponent + 1; }
};

Format FormatOf(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF8E5M2:
      return {2, 5, 15, Specials::kIeee};
    case PrimitiveType::kF8E4M3:
      return {3, 4, 7, Specials::kIeee};
    case PrimitiveType::kF8E3M4:
      return {4, 3, 3, Specials::kIeee};
    case PrimitiveType::kF8E4M3FN:
      return {3, 4, 7, Specials::kFn};
    case PrimitiveType::kF8E4M3B11FNUZ:
      return {3, 4, 11, Specials::kFnuz};
    case PrimitiveType::kF8E5M2FNUZ:
      return {2, 5, 16, Specials::kFnuz};
    case PrimitiveType::kF8E4M3FNUZ:
      return {3, 4, 8, Specials::kFnuz};
    case PrimitiveType::kF4E2M1FN:
      return {1, 2, 1, Specials::kFinite};
    case PrimitiveType::kF6E2M3FN:
      return {3, 2, 1, Specials::kFinite};
    case PrimitiveType::kF6E3M2FN:
      return {2, 3, 3, Specials::kFinite};
    default:
      return {0, 8, 127, Specials::kPowerOnly};
  }
}

// Returns the bit pattern of the largest finite magnitude.
uint32_t MaxFinite(const Format& f) {
  const uint32_t all = (1u << (f.mantissa + f.exponent)) - 1;
  switch (f.specials) {
    case Specials::kIeee:
      return all - (1u << f.mantissa);
    case Specials::kFn:
      return all - 1;
    default:
      return all;
  }
}

float DecodeSmall(const Format& f, uint8_t bits) {
  if (f.specials == Specials::kPowerOnly) {
    return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(bits) - 127);
  }
  const uint32_t magnitude = bits & ((1u << (f.mantissa + f.exponent)) - 1);
  const bool negative = (bits >> (f.mantissa + f.exponent)) & 1;
  const float nan = std::copysign(std::numeric_limits<float>::quiet_NaN(), negative ? -1.0f : 1.0f);
  if (f.specials == Specials::kFnuz && negative && magnitude == 0) return nan;
  if (magnitude > MaxFinite(f)) {
    const bool infinite = f.specials == Specials::kIeee && magnitude == MaxFinite(f) + 1;
    if (!infinite) return nan;
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const int exponent = static_cast<int>(magnitude >> f.mantissa);
  const int fraction = static_cast<int>(magnitude & ((1u << f.mantissa) - 1));
  const float value =
      exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - f.bias - f.mantissa)
                    : std::ldexp(static_cast<float>(fraction + (1 << f.mantissa)), exponent - f.bias - f.mantissa);
  return negative ? -value : value;
}

uint8_t EncodePowerOfTwo(float v) {
  if (!(v > 0) || std::isinf(v)) return 0xff;  // the format has no zero, sign or infinity
  const uint32_t u = std::bit_cast<uint32_t>(v);
  // Below 2^-126 only values up to 2^-127 become the smallest number: ml_dtypes does so, although 1.5 * 2^-127 is the
  // middle.
  if (u < 0x00800000u) return u > 0x00400000u ? 1 : 0;
  const uint32_t rounded = u + 0x00400000u;  // ties round up: without a mantissa there is no even neighbour
  return static_cast<uint8_t>(rounded >> 23);
}

using DecodeTable = std::array<float, 256>;

const DecodeTable& TableOf(PrimitiveType type) {
  struct Tables {
    std::array<DecodeTable, 66> tables;
    Tables() {
#define BACKPLANE_X(t) Fill(PrimitiveType::t);
      BACKPLANE_SMALL_FLOATS(BACKPLANE_X)
#undef BACKPLANE_X
    }
    void Fill(PrimitiveType t) {
      const Format f = FormatOf(t);
      for (int i = 0; i < 256; ++i) tables[static_cast<int>(t)][i] = DecodeSmall(f, static_cast<uint8_t>(i));
    }
  };
  static const Tables& all = *new Tables();
  return all.tables[static_cast<int>(type)];
}

}  // namespace

uint16_t FloatToHalfBits(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x1ff));
  if (magnitude >= 0x47800000u) return sign | 0x7c00;                    // 65536 and above
  if (magnitude < 0x38800000u) {                                         // below 2^-14: subnormal, the spacing is 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;  // exact
    const uint32_t significand = static_cast<uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(significand);
    const bool up = rest > 0.5f || (rest == 0.5f && (significand & 1));
    return static_cast<uint16_t>(sign | (significand + (up ? 1 : 0)));
  }
  const uint32_t rebased = magnitude - 0x38000000u;
  return static_cast<uint16_t>(sign | ((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13));
}

float HalfBitsToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * (1.0f / 16777216.0f);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint8_t FloatToSmallBits(PrimitiveType type, float v) {
  const Format f = FormatOf(type);
  if (f.specials == Specials::kPowerOnly) return EncodePowerOfTwo(v);
  const uint8_t sign_bit = static_cast<uint8_t>(1u << (f.bits() - 1));
  const uint32_t max_finite = MaxFinite(f);
  uint8_t sign = std::signbit(v) ? sign_bit : 0;
  if (std::isnan(v)) {
    switch (f.specials) {
      case Specials::kIeee:
        return static_cast<uint8_t>(sign | (max_finite + 1) | (1u << (f.mantissa - 1)));
      case Specials::kFn:
        return static_cast<uint8_t>(sign | (max_finite + 1));
      case Specials::kFnuz:
        return sign_bit;
      default:
        return sign ^ sign_bit;  // the format has no such NaN: a zero of the other sign, as in ml_dtypes
    }
  }
  uint32_t magnitude = max_finite + 1;
  const float a = std::fabs(v);
  if (!std::isinf(a)) {
    const int exponent = a == 0 ? 1 - f.bias : std::max(std::ilogb(a), 1 - f.bias);
    // The spacing of numbers at this exponent, or of subnormals. Scaling by a power of two is exact in double.
    const double scaled = std::ldexp(static_cast<double>(a), f.mantissa - exponent);
    if (scaled < 1024) {
      uint32_t significand = static_cast<uint32_t>(scaled);
      const double rest = scaled - significand;
      if (rest > 0.5 || (rest == 0.5 && (significand & 1))) ++significand;
      // `significand` includes the hidden bit; a carry out of the mantissa increments the exponent.
      const int64_t m = static_cast<int64_t>(exponent + f.bias - 1) * (1 << f.mantissa) + significand;
      magnitude = m > max_finite ? max_finite + 1 : static_cast<uint32_t>(m);
    }
  }
  if (magnitude > max_finite) {
    switch (f.specials) {
      case Specials::kIeee:
      case Specials::kFn:
        return static_cast<uint8_t>(sign | (max_finite + 1));
      case Specials::kFnuz:
        return sign_bit;
      default:
        return static_cast<uint8_t>(sign | max_finite);
    }
  }
  if (magnitude == 0 && f.specials == Specials::kFnuz) sign = 0;
  return static_cast<uint8_t>(sign | magnitude);
}

float SmallBitsToFloat(PrimitiveType type, uint8_t bits) { return TableOf(type)[bits]; }

float RoundToOddFloat(double d) {
  const float f = static_cast<float>(d);
  if (static_cast<double>(f) == d || std::isnan(d)) return f;
  uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::fabs(static_cast<double>(f)) > std::fabs(d)) --u;  // toward zero
  return std::bit_cast<float>(u | 1);
}

}  // namespace backplane
