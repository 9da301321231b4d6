// Conversions on lanes. To integers they truncate and saturate, and a NaN becomes zero.
#include <cmath>
#include <limits>
#include <type_traits>

#include "plugins/hip/isa/operations/float_functions.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

template <class To>
To Truncate(double v) {
  if (std::isnan(v)) return 0;
  if (v <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (v >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(v);
}
template <class T>
uint32_t ClampTo(int64_t v) {
  if (v < std::numeric_limits<T>::min()) v = std::numeric_limits<T>::min();
  if (v > std::numeric_limits<T>::max()) v = std::numeric_limits<T>::max();
  return static_cast<std::make_unsigned_t<T>>(static_cast<T>(v));
}
constexpr uint32_t PairOf(uint32_t low, uint32_t high) { return (low & 0xffff) | high << 16; }

inline uint32_t ConvertToNormalized(double v, double scale, bool is_signed) {
  if (std::isnan(v)) return 0;
  const double low = is_signed ? -1.0 : 0.0;
  const double r = std::nearbyint((v < low ? low : v > 1 ? 1.0 : v) * scale);
  return static_cast<uint16_t>(static_cast<int32_t>(r));
}
inline uint64_t PairOfFloats(float low, float high) {
  return std::bit_cast<uint32_t>(low) | static_cast<uint64_t>(std::bit_cast<uint32_t>(high)) << 32;
}
template <int kByte>
float FloatOfByte(uint32_t v) {
  return static_cast<float>(v >> (8 * kByte) & 255);
}

constexpr Operation kVectorConversions[] = {
    Lanes<[](int32_t a) { return (static_cast<float>(a)); }>("v_cvt_f32_i32"),
    Lanes<[](uint32_t a) { return (static_cast<float>(a)); }>("v_cvt_f32_u32"),
    Lanes<[](int32_t a) { return (static_cast<double>(a)); }>("v_cvt_f64_i32"),
    Lanes<[](uint32_t a) { return (static_cast<double>(a)); }>("v_cvt_f64_u32"),
    Lanes<[](float a) { return (Truncate<int32_t>(a)); }>("v_cvt_i32_f32"),
    Lanes<[](float a) { return (Truncate<uint32_t>(a)); }>("v_cvt_u32_f32"),
    Lanes<[](double a) { return (Truncate<int32_t>(a)); }>("v_cvt_i32_f64"),
    Lanes<[](double a) { return (Truncate<uint32_t>(a)); }>("v_cvt_u32_f64"),
    Lanes<[](float a) { return (static_cast<double>(a)); }>("v_cvt_f64_f32"),
    Lanes<[](double a) { return (static_cast<float>(a)); }>("v_cvt_f32_f64"),
    Lanes<[](Half a) { return a.v; }>("v_cvt_f32_f16"),
    Lanes<[](float a) { return Half{a}; }>("v_cvt_f16_f32"),
    Lanes<[](uint16_t a) { return Half{static_cast<float>(a)}; }>("v_cvt_f16_u16"),
    Lanes<[](int16_t a) { return Half{static_cast<float>(a)}; }>("v_cvt_f16_i16"),
    Lanes<[](Half a) { return (Truncate<uint16_t>(a.v)); }>("v_cvt_u16_f16"),
    Lanes<[](Half a) { return (Truncate<int16_t>(a.v)); }>("v_cvt_i16_f16"),
    Lanes<[](float a) { return (Truncate<int32_t>(std::floor(a))); }>("v_cvt_flr_i32_f32"),
    Lanes<[](float a) { return (Truncate<int32_t>(std::floor(a))); }>("v_cvt_floor_i32_f32"),
    Lanes<[](float a) { return (Truncate<int32_t>(std::floor(a + 0.5f))); }>("v_cvt_rpi_i32_f32"),
    Lanes<[](float a) { return (Truncate<int32_t>(std::floor(a + 0.5f))); }>("v_cvt_nearest_i32_f32"),
    Lanes<[](uint32_t a) { return (FloatOfByte<0>(a)); }>("v_cvt_f32_ubyte0"),
    Lanes<[](uint32_t a) { return (FloatOfByte<1>(a)); }>("v_cvt_f32_ubyte1"),
    Lanes<[](uint32_t a) { return (FloatOfByte<2>(a)); }>("v_cvt_f32_ubyte2"),
    Lanes<[](uint32_t a) { return (FloatOfByte<3>(a)); }>("v_cvt_f32_ubyte3"),
    Lanes<[](float a, uint32_t at, uint32_t into) {
      const uint32_t shift = 8 * (at & 3);
      return (into & ~(255u << shift)) | uint32_t{Truncate<uint8_t>(a)} << shift;
    }>("v_cvt_pk_u8_f32"),
    Lanes<[](float a, float b) { return PairOf(ConvertFloatToHalfTowardZero(a), ConvertFloatToHalfTowardZero(b)); }>(
        "v_cvt_pkrtz_f16_f32"),
    Lanes<[](float a, float b) { return PairOf(ConvertFloatToHalfTowardZero(a), ConvertFloatToHalfTowardZero(b)); }>(
        "v_cvt_pk_rtz_f16_f32"),
    Lanes<[](int32_t a, int32_t b) { return (PairOf(ClampTo<int16_t>(a), ClampTo<int16_t>(b))); }>("v_cvt_pk_i16_i32"),
    Lanes<[](uint32_t a, uint32_t b) { return (PairOf(ClampTo<uint16_t>(a), ClampTo<uint16_t>(b))); }>(
        "v_cvt_pk_u16_u32"),
    Lanes<[](float a, float b) {
      return PairOf(static_cast<uint16_t>(Truncate<int16_t>(a)), static_cast<uint16_t>(Truncate<int16_t>(b)));
    }>("v_cvt_pk_i16_f32"),
    Lanes<[](float a, float b) { return (PairOf(Truncate<uint16_t>(a), Truncate<uint16_t>(b))); }>("v_cvt_pk_u16_f32"),
    Lanes<[](float a, float b) {
      return PairOf(ConvertToNormalized(a, 32767, true), ConvertToNormalized(b, 32767, true));
    }>("v_cvt_pknorm_i16_f32"),
    Lanes<[](float a, float b) {
      return PairOf(ConvertToNormalized(a, 65535, false), ConvertToNormalized(b, 65535, false));
    }>("v_cvt_pknorm_u16_f32"),
    Lanes<[](float a, float b) {
      return PairOf(ConvertToNormalized(a, 32767, true), ConvertToNormalized(b, 32767, true));
    }>("v_cvt_pk_norm_i16_f32"),
    Lanes<[](float a, float b) {
      return PairOf(ConvertToNormalized(a, 65535, false), ConvertToNormalized(b, 65535, false));
    }>("v_cvt_pk_norm_u16_f32"),
    // 8-bit floats of gfx942
    Lanes<[](uint32_t a) { return (ConvertFloat8ToFloat(static_cast<uint8_t>(a), kFp8)); }>("v_cvt_f32_fp8"),
    Lanes<[](uint32_t a) { return (ConvertFloat8ToFloat(static_cast<uint8_t>(a), kBf8)); }>("v_cvt_f32_bf8"),
    Lanes<[](uint32_t a) {
      return PairOfFloats(ConvertFloat8ToFloat(static_cast<uint8_t>(a), kFp8),
                          ConvertFloat8ToFloat(static_cast<uint8_t>(a >> 8), kFp8));
    }>("v_cvt_pk_f32_fp8"),
    Lanes<[](uint32_t a) {
      return PairOfFloats(ConvertFloat8ToFloat(static_cast<uint8_t>(a), kBf8),
                          ConvertFloat8ToFloat(static_cast<uint8_t>(a >> 8), kBf8));
    }>("v_cvt_pk_f32_bf8"),
    KeepUpperHalf(Lanes<[](float a, float b) {
      return static_cast<uint16_t>(ConvertFloatToFloat8(a, kFp8, false) | ConvertFloatToFloat8(b, kFp8, false) << 8);
    }>("v_cvt_pk_fp8_f32")),
    KeepUpperHalf(Lanes<[](float a, float b) {
      return static_cast<uint16_t>(ConvertFloatToFloat8(a, kBf8, false) | ConvertFloatToFloat8(b, kBf8, false) << 8);
    }>("v_cvt_pk_bf8_f32")),
};

}  // namespace

absl::Span<const Operation> VectorConversions() { return kVectorConversions; }

}  // namespace backplane::hip::isa
