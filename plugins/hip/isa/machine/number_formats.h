// The small floating-point formats of the machines, to and from float and double. Conversions to a small format round
// to nearest even; subnormals are kept.
//
// f16 is IEEE binary16. bf16 is the upper half of binary32. "OCP 8-bit Floating Point Specification" is not what gfx942
// implements: its fp8 and bf8 are the variants E4M3FNUZ and E5M2FNUZ, with one zero and one NaN (0x80).
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_NUMBER_FORMATS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_NUMBER_FORMATS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace backplane::hip::isa {

inline float ConvertHalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

// Rounds the double once. Exact intermediate results therefore give correctly rounded halves.
inline uint16_t ConvertDoubleToHalf(double d) {
  const uint64_t bits = std::bit_cast<uint64_t>(d);
  const uint16_t sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const double a = std::fabs(d);
  if (std::isnan(d)) return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 42 & 0x3ff));
  if (a >= 65520.0) return sign | 0x7c00;
  if (a < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(a * 0x1p24)));
  // 42 bits of the mantissa go; a carry out of the rest increases the exponent, as it should.
  const uint64_t magnitude = bits & 0x7fffffffffffffffull;
  const uint64_t rounded = magnitude + 0x1ffffffffffull + (magnitude >> 42 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 42) - (1008ull << 10)));
}
inline uint16_t ConvertFloatToHalf(float f) { return ConvertDoubleToHalf(f); }

// Rounds toward zero, as v_cvt_pkrtz does. Finite values stay finite.
inline uint16_t ConvertFloatToHalfTowardZero(float f) {
  if (std::isnan(f) || std::isinf(f)) return ConvertFloatToHalf(f);
  const uint16_t h = ConvertFloatToHalf(f);
  return std::fabs(ConvertHalfToFloat(h)) > std::fabs(f) ? static_cast<uint16_t>(h - 1) : h;
}

inline float ConvertBf16ToFloat(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }
inline uint16_t ConvertFloatToBf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// fp8 (4 exponent bits, 3 of mantissa, bias 8) and bf8 (5, 2, bias 16).
struct Float8Format {
  int mantissa_bits, bias;
};
inline constexpr Float8Format kFp8{3, 8}, kBf8{2, 16};

inline float ConvertFloat8ToFloat(uint8_t b, Float8Format f) {
  if (b == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = (b & 0x7f) >> f.mantissa_bits, mantissa = b & ((1 << f.mantissa_bits) - 1);
  const int fraction = exponent == 0 ? mantissa : mantissa | 1 << f.mantissa_bits;
  const float magnitude =
      std::ldexp(static_cast<float>(fraction), (exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits);
  return (b & 0x80) != 0 ? -magnitude : magnitude;
}

// Values beyond the largest become NaN, or the largest if `saturate`; infinities always count as beyond.
inline uint8_t ConvertFloatToFloat8(float v, Float8Format f, bool saturate) {
  if (std::isnan(v)) return 0x80;
  const uint8_t sign = std::signbit(v) ? 0x80 : 0;
  const float a = std::fabs(v);
  const float largest = ConvertFloat8ToFloat(0x7f, f);
  if (std::isinf(v)) return saturate ? sign | 0x7f : 0x80;
  int exponent = 0;
  std::frexp(a, &exponent);
  int biased = exponent - 1 + f.bias;
  if (biased < 1) biased = 1;
  const float step = std::ldexp(1.0f, biased - f.bias - f.mantissa_bits);
  const float rounded = std::nearbyint(a / step) * step;
  if (rounded > largest) return saturate ? sign | 0x7f : 0x80;
  if (rounded == 0) return 0;
  std::frexp(rounded, &exponent);
  biased = exponent - 1 + f.bias;
  if (biased < 1) return sign | static_cast<uint8_t>(std::ldexp(rounded, f.bias - 1 + f.mantissa_bits));
  const int fraction = static_cast<int>(std::ldexp(rounded, f.bias + f.mantissa_bits - biased));
  return sign | static_cast<uint8_t>(biased << f.mantissa_bits | (fraction - (1 << f.mantissa_bits)));
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_NUMBER_FORMATS_H_
