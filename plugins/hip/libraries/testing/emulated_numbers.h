// Conversions between f32 and narrower types for the kernels of the emulated libraries, which need no other library.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_NUMBERS_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_NUMBERS_H_

#include <cstdint>

namespace backplane::hip::emulated_numbers {

inline float FloatOfBits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t BitsOfFloat(float f) { return __builtin_bit_cast(uint32_t, f); }

// Rounds to nearest, to even, keeping so many bits of the 23.
inline float RoundMantissa(float f, int kept) {
  const uint32_t bits = BitsOfFloat(f);
  if ((bits & 0x7F800000u) == 0x7F800000u) return f;
  const int dropped = 23 - kept;
  const uint32_t half = (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
  return FloatOfBits(((bits + half) >> dropped) << dropped);
}

inline float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3FFu;
  if (exponent == 31) return FloatOfBits(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return FloatOfBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float small = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

inline uint16_t FloatToHalf(float f) {
  const uint32_t sign = (BitsOfFloat(f) >> 16) & 0x8000u;
  const float magnitude = FloatOfBits(BitsOfFloat(f) & 0x7FFFFFFFu);
  if (!(magnitude == magnitude)) return static_cast<uint16_t>(sign | 0x7E00u);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00u);
  // Adding this constant rounds numbers below the smallest normal one to multiples of 2^-24.
  if (magnitude < 0x1p-14f) return static_cast<uint16_t>(sign | (BitsOfFloat(magnitude + 0.5f) - BitsOfFloat(0.5f)));
  return static_cast<uint16_t>(sign | ((BitsOfFloat(RoundMantissa(magnitude, 10)) >> 13) - (112u << 10)));
}

}  // namespace backplane::hip::emulated_numbers

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_NUMBERS_H_
