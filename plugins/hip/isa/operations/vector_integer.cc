// Integer arithmetic on lanes.
#include <algorithm>
#include <limits>

#include "plugins/hip/isa/machine/lanes.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

constexpr uint32_t AddWithCarry(uint32_t a, uint32_t b, uint32_t c, bool& out) {
  const uint64_t r = static_cast<uint64_t>(a) + b + c;
  out = r > 0xffffffffull;
  return static_cast<uint32_t>(r);
}
constexpr uint32_t SubtractWithBorrow(uint32_t a, uint32_t b, uint32_t c, bool& out) {
  out = static_cast<uint64_t>(b) + c > a;
  return a - b - c;
}
template <class T>
constexpr T Saturate(int64_t v) {
  return static_cast<T>(std::clamp<int64_t>(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}
template <class T>
constexpr T MedianOfIntegers(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
constexpr int32_t Signed24(uint32_t v) { return static_cast<int32_t>(v << 8) >> 8; }
constexpr uint32_t Unsigned24(uint32_t v) { return v & 0xffffff; }
constexpr uint32_t SumOfAbsoluteDifferences(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 32; i += 8) {
    const int x = a >> i & 255, y = b >> i & 255;
    c += static_cast<uint32_t>(x > y ? x - y : y - x);
  }
  return c;
}
constexpr Operation LimitToGfx1100(Operation o) {
  o.machine = Operation::kGfx1100;
  return o;
}
#define BACKPLANE_SUM(NAME) Lanes<[](uint32_t a, uint32_t b) { return a + b; }>(NAME)
#define BACKPLANE_DIFFERENCE(NAME) Lanes<[](uint32_t a, uint32_t b) { return a - b; }>(NAME)
#define BACKPLANE_ADD_CO(NAME) Lanes<[](uint32_t a, uint32_t b, bool& out) { return AddWithCarry(a, b, 0, out); }>(NAME)
#define BACKPLANE_SUB_CO(NAME) \
  Lanes<[](uint32_t a, uint32_t b, bool& out) { return SubtractWithBorrow(a, b, 0, out); }>(NAME)
#define BACKPLANE_SUBREV_CO(NAME) \
  Lanes<[](uint32_t a, uint32_t b, bool& out) { return SubtractWithBorrow(b, a, 0, out); }>(NAME)
#define BACKPLANE_ADDC(NAME) \
  Lanes<[](uint32_t a, uint32_t b, bool in, bool& out) { return AddWithCarry(a, b, in, out); }>(NAME)
#define BACKPLANE_SUBB(NAME) \
  Lanes<[](uint32_t a, uint32_t b, bool in, bool& out) { return SubtractWithBorrow(a, b, in, out); }>(NAME)
#define BACKPLANE_SUBBREV(NAME) \
  Lanes<[](uint32_t a, uint32_t b, bool in, bool& out) { return SubtractWithBorrow(b, a, in, out); }>(NAME)

constexpr Operation kVectorInteger[] = {
    BACKPLANE_SUM("v_add_u32"),
    BACKPLANE_SUM("v_add_i32"),
    BACKPLANE_SUM("v_add_nc_u32"),
    BACKPLANE_SUM("v_add_nc_i32"),
    BACKPLANE_SUM("v_dual_add_nc_u32"),
    BACKPLANE_DIFFERENCE("v_sub_u32"),
    BACKPLANE_DIFFERENCE("v_sub_i32"),
    BACKPLANE_DIFFERENCE("v_sub_nc_u32"),
    BACKPLANE_DIFFERENCE("v_sub_nc_i32"),
    Lanes<[](uint32_t a, uint32_t b) { return b - a; }>("v_subrev_u32"),
    Lanes<[](uint32_t a, uint32_t b) { return b - a; }>("v_subrev_nc_u32"),
    Lanes<[](uint32_t a, uint32_t b) { return Saturate<uint32_t>(int64_t{a} + b); }>("v_add_u32 clamp"),
    Lanes<[](uint32_t a, uint32_t b) { return Saturate<uint32_t>(int64_t{a} + b); }>("v_add_nc_u32 clamp"),
    Lanes<[](int32_t a, int32_t b) { return Saturate<int32_t>(int64_t{a} + b); }>("v_add_i32 clamp"),
    Lanes<[](int32_t a, int32_t b) { return Saturate<int32_t>(int64_t{a} + b); }>("v_add_nc_i32 clamp"),
    Lanes<[](uint32_t a, uint32_t b) { return Saturate<uint32_t>(int64_t{a} - b); }>("v_sub_u32 clamp"),
    Lanes<[](uint32_t a, uint32_t b) { return Saturate<uint32_t>(int64_t{a} - b); }>("v_sub_nc_u32 clamp"),
    Lanes<[](uint32_t a, uint32_t b) { return Saturate<uint32_t>(int64_t{b} - a); }>("v_subrev_u32 clamp"),
    Lanes<[](uint32_t a, uint32_t b) { return Saturate<uint32_t>(int64_t{b} - a); }>("v_subrev_nc_u32 clamp"),
    Lanes<[](int32_t a, int32_t b) { return Saturate<int32_t>(int64_t{a} - b); }>("v_sub_i32 clamp"),
    Lanes<[](int32_t a, int32_t b) { return Saturate<int32_t>(int64_t{a} - b); }>("v_sub_nc_i32 clamp"),
    BACKPLANE_ADD_CO("v_add_co_u32"),
    BACKPLANE_SUB_CO("v_sub_co_u32"),
    BACKPLANE_SUBREV_CO("v_subrev_co_u32"),
    BACKPLANE_ADDC("v_addc_co_u32"),
    BACKPLANE_ADDC("v_add_co_ci_u32"),
    BACKPLANE_SUBB("v_subb_co_u32"),
    BACKPLANE_SUBB("v_sub_co_ci_u32"),
    BACKPLANE_SUBBREV("v_subbrev_co_u32"),
    BACKPLANE_SUBBREV("v_subrev_co_ci_u32"),
    Lanes<[](uint32_t a, uint32_t b) { return a * b; }>("v_mul_lo_u32"),
    Lanes<[](uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }>("v_mul_hi_u32"),
    Lanes<[](int32_t a, int32_t b) { return static_cast<uint32_t>(int64_t{a} * b >> 32); }>("v_mul_hi_i32"),
    Lanes<[](uint32_t a, uint32_t b) { return Unsigned24(a) * Unsigned24(b); }>("v_mul_u32_u24"),
    Lanes<[](uint32_t a, uint32_t b) { return static_cast<uint32_t>(int64_t{Signed24(a)} * Signed24(b)); }>(
        "v_mul_i32_i24"),
    Lanes<[](uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{Unsigned24(a)} * Unsigned24(b) >> 32); }>(
        "v_mul_hi_u32_u24"),
    Lanes<[](uint32_t a, uint32_t b) { return static_cast<uint32_t>(int64_t{Signed24(a)} * Signed24(b) >> 32); }>(
        "v_mul_hi_i32_i24"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return Unsigned24(a) * Unsigned24(b) + c; }>("v_mad_u32_u24"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) {
      return static_cast<uint32_t>(int64_t{Signed24(a)} * Signed24(b)) + c;
    }>("v_mad_i32_i24"),
    Lanes<[](uint32_t a, uint32_t b, uint64_t c, bool& out) {
      const uint64_t product = uint64_t{a} * b;
      out = product + c < c;
      return product + c;
    }>("v_mad_u64_u32"),
    Lanes<[](int32_t a, int32_t b, int64_t c, bool& out) {
      int64_t r = 0;
      out = __builtin_add_overflow(int64_t{a} * b, c, &r);
      return r;
    }>("v_mad_i64_i32"),
    Lanes<[](uint16_t a, uint16_t b, uint32_t c) { return uint32_t{a} * b + c; }>("v_mad_u32_u16"),
    Lanes<[](int16_t a, int16_t b, uint32_t c) { return static_cast<uint32_t>(int32_t{a} * b) + c; }>("v_mad_i32_i16"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return a + b + c; }>("v_add3_u32"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return (a << (b & 31)) + c; }>("v_lshl_add_u32"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return (a + b) << (c & 31); }>("v_add_lshl_u32"),
    Lanes<[](uint64_t a, uint32_t b, uint64_t c) { return (a << (b & 7)) + c; }>("v_lshl_add_u64"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return (a ^ b) + c; }>("v_xad_u32"),
    Lanes<[](int32_t a, int32_t b) { return std::min(a, b); }>("v_min_i32"),
    Lanes<[](int32_t a, int32_t b) { return std::max(a, b); }>("v_max_i32"),
    Lanes<[](uint32_t a, uint32_t b) { return std::min(a, b); }>("v_min_u32"),
    Lanes<[](uint32_t a, uint32_t b) { return std::max(a, b); }>("v_max_u32"),
    Lanes<[](int32_t a, int32_t b, int32_t c) {
      return std::min({a, b, c});
    }>("v_min3_i32"),
    Lanes<[](int32_t a, int32_t b, int32_t c) {
      return std::max({a, b, c});
    }>("v_max3_i32"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) {
      return std::min({a, b, c});
    }>("v_min3_u32"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) {
      return std::max({a, b, c});
    }>("v_max3_u32"),
    Lanes<[](int32_t a, int32_t b, int32_t c) { return MedianOfIntegers(a, b, c); }>("v_med3_i32"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return MedianOfIntegers(a, b, c); }>("v_med3_u32"),
    LimitToGfx1100(Lanes<[](int32_t a, int32_t b, int32_t c) { return std::min(std::max(a, b), c); }>("v_maxmin_i32")),
    LimitToGfx1100(
        Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return std::min(std::max(a, b), c); }>("v_maxmin_u32")),
    LimitToGfx1100(Lanes<[](int32_t a, int32_t b, int32_t c) { return std::max(std::min(a, b), c); }>("v_minmax_i32")),
    LimitToGfx1100(
        Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return std::max(std::min(a, b), c); }>("v_minmax_u32")),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return SumOfAbsoluteDifferences(a, b, c); }>("v_sad_u8"),
    Lanes<[](uint32_t a, uint32_t b, uint32_t c) { return ((a > b ? a - b : b - a) + c); }>("v_sad_u32"),
    // 16 bits
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a + b)); }>("v_add_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a + b)); }>("v_add_i16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a + b)); }>("v_add_nc_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a + b)); }>("v_add_nc_i16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a - b)); }>("v_sub_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a - b)); }>("v_sub_i16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a - b)); }>("v_sub_nc_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(a - b)); }>("v_sub_nc_i16"),
    Lanes<[](uint16_t a, uint16_t b) { return (static_cast<uint16_t>(b - a)); }>("v_subrev_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return Saturate<uint16_t>(int64_t{a} + b); }>("v_add_u16 clamp"),
    Lanes<[](uint16_t a, uint16_t b) { return Saturate<uint16_t>(int64_t{a} + b); }>("v_add_nc_u16 clamp"),
    Lanes<[](int16_t a, int16_t b) { return Saturate<int16_t>(int64_t{a} + b); }>("v_add_i16 clamp"),
    Lanes<[](int16_t a, int16_t b) { return Saturate<int16_t>(int64_t{a} + b); }>("v_add_nc_i16 clamp"),
    Lanes<[](uint16_t a, uint16_t b) { return Saturate<uint16_t>(int64_t{a} - b); }>("v_sub_u16 clamp"),
    Lanes<[](uint16_t a, uint16_t b) { return Saturate<uint16_t>(int64_t{a} - b); }>("v_sub_nc_u16 clamp"),
    Lanes<[](int16_t a, int16_t b) { return Saturate<int16_t>(int64_t{a} - b); }>("v_sub_i16 clamp"),
    Lanes<[](int16_t a, int16_t b) { return Saturate<int16_t>(int64_t{a} - b); }>("v_sub_nc_i16 clamp"),
    Lanes<[](uint16_t a, uint16_t b) { return static_cast<uint16_t>(uint32_t{a} * b); }>("v_mul_lo_u16"),
    KeepUpperHalf(Lanes<[](uint16_t a, uint16_t b, uint16_t c) { return static_cast<uint16_t>(uint32_t{a} * b + c); }>(
        "v_mad_u16")),
    Lanes<[](uint16_t a, uint16_t b, uint16_t c) { return static_cast<uint16_t>(uint32_t{a} * b + c); }>(
        "v_mad_legacy_u16"),
    Lanes<[](uint16_t a, uint16_t b, uint16_t c) { return static_cast<uint16_t>(uint32_t{a} * b + c); }>(
        "v_mad_legacy_i16"),
    KeepUpperHalf(Lanes<[](uint16_t a, uint16_t b, uint16_t c) { return static_cast<uint16_t>(uint32_t{a} * b + c); }>(
        "v_mad_i16")),
    Lanes<[](int16_t a, int16_t b) { return std::min(a, b); }>("v_min_i16"),
    Lanes<[](int16_t a, int16_t b) { return std::max(a, b); }>("v_max_i16"),
    Lanes<[](uint16_t a, uint16_t b) { return std::min(a, b); }>("v_min_u16"),
    Lanes<[](uint16_t a, uint16_t b) { return std::max(a, b); }>("v_max_u16"),
    KeepUpperHalf(Lanes<[](int16_t a, int16_t b, int16_t c) {
      return std::min({a, b, c});
    }>("v_min3_i16")),
    KeepUpperHalf(Lanes<[](int16_t a, int16_t b, int16_t c) {
      return std::max({a, b, c});
    }>("v_max3_i16")),
    KeepUpperHalf(Lanes<[](uint16_t a, uint16_t b, uint16_t c) {
      return std::min({a, b, c});
    }>("v_min3_u16")),
    KeepUpperHalf(Lanes<[](uint16_t a, uint16_t b, uint16_t c) {
      return std::max({a, b, c});
    }>("v_max3_u16")),
    KeepUpperHalf(Lanes<[](int16_t a, int16_t b, int16_t c) { return MedianOfIntegers(a, b, c); }>("v_med3_i16")),
    KeepUpperHalf(Lanes<[](uint16_t a, uint16_t b, uint16_t c) { return MedianOfIntegers(a, b, c); }>("v_med3_u16")),
};

#undef BACKPLANE_SUM
#undef BACKPLANE_DIFFERENCE
#undef BACKPLANE_ADD_CO
#undef BACKPLANE_SUB_CO
#undef BACKPLANE_SUBREV_CO
#undef BACKPLANE_ADDC
#undef BACKPLANE_SUBB
#undef BACKPLANE_SUBBREV

}  // namespace

absl::Span<const Operation> VectorInteger() { return kVectorInteger; }

}  // namespace backplane::hip::isa
