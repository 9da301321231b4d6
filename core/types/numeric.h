// C++ types for the element types that C++ lacks, and dispatch from a PrimitiveType to its C++ type.
//
// Each class is a bit pattern with conversion to and from float (round to nearest even; overflow to infinity where the
// format has one, else to NaN, or saturation for formats with neither, f4 and f6). Arithmetic happens in float.
// Formats: OCP 8-bit (E5M2, E4M3FN, E4M3, E3M4), FNUZ variants (one zero, NaN = 0x80), E8M0 (powers of two), MX f6, f4.
#ifndef BACKPLANE_CORE_TYPES_NUMERIC_H_
#define BACKPLANE_CORE_TYPES_NUMERIC_H_

#include <bit>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/types/primitive_type.h"

namespace backplane {

uint16_t FloatToHalfBits(float f);
float HalfBitsToFloat(uint16_t bits);

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((u >> 16) | 0x40)
                                           : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float f) : bits(FloatToHalfBits(f)) {}
  explicit operator float() const { return HalfBitsToFloat(bits); }
};

// Convert a float format of at most one byte, which `type` names. They use tables that are built on first use.
uint8_t FloatToSmallBits(PrimitiveType type, float f);
float SmallBitsToFloat(PrimitiveType type, uint8_t bits);

// Truncates a double to a float and sets its last bit if that was inexact (round to odd). Rounding the result to a
// format of at most 22 mantissa bits gives the same as rounding the double directly.
float RoundToOddFloat(double d);

template <PrimitiveType kType>
struct SmallFloat {
  uint8_t bits = 0;
  SmallFloat() = default;
  explicit SmallFloat(float f) : bits(FloatToSmallBits(kType, f)) {}
  explicit operator float() const { return SmallBitsToFloat(kType, bits); }
};

// An integer of 1, 2 or 4 bits, stored in one byte. The constructor wraps its argument to the width.
template <int kBits, bool kSigned>
struct SmallInt {
  std::conditional_t<kSigned, int8_t, uint8_t> value = 0;
  SmallInt() = default;
  explicit SmallInt(int64_t v) {
    uint64_t m = static_cast<uint64_t>(v) & ((1u << kBits) - 1);
    if constexpr (kSigned)
      value = static_cast<int8_t>(static_cast<int8_t>(m << (8 - kBits)) >> (8 - kBits));
    else
      value = static_cast<uint8_t>(m);
  }
  explicit operator int64_t() const { return value; }
};

template <PrimitiveType kType>
struct NativeTypeOf;
template <>
struct NativeTypeOf<PrimitiveType::kPred> {
  using type = bool;
};
template <>
struct NativeTypeOf<PrimitiveType::kS8> {
  using type = int8_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kS16> {
  using type = int16_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kS32> {
  using type = int32_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kS64> {
  using type = int64_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kU8> {
  using type = uint8_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kU16> {
  using type = uint16_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kU32> {
  using type = uint32_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kU64> {
  using type = uint64_t;
};
template <>
struct NativeTypeOf<PrimitiveType::kF16> {
  using type = f16;
};
template <>
struct NativeTypeOf<PrimitiveType::kBF16> {
  using type = bf16;
};
template <>
struct NativeTypeOf<PrimitiveType::kF32> {
  using type = float;
};
template <>
struct NativeTypeOf<PrimitiveType::kF64> {
  using type = double;
};
template <>
struct NativeTypeOf<PrimitiveType::kC64> {
  using type = std::complex<float>;
};
template <>
struct NativeTypeOf<PrimitiveType::kC128> {
  using type = std::complex<double>;
};
template <>
struct NativeTypeOf<PrimitiveType::kS1> {
  using type = SmallInt<1, true>;
};
template <>
struct NativeTypeOf<PrimitiveType::kU1> {
  using type = SmallInt<1, false>;
};
template <>
struct NativeTypeOf<PrimitiveType::kS2> {
  using type = SmallInt<2, true>;
};
template <>
struct NativeTypeOf<PrimitiveType::kU2> {
  using type = SmallInt<2, false>;
};
template <>
struct NativeTypeOf<PrimitiveType::kS4> {
  using type = SmallInt<4, true>;
};
template <>
struct NativeTypeOf<PrimitiveType::kU4> {
  using type = SmallInt<4, false>;
};
#define BACKPLANE_SMALL_FLOATS(X) \
  X(kF8E5M2)                      \
  X(kF8E4M3FN)                    \
  X(kF8E4M3B11FNUZ)               \
  X(kF8E5M2FNUZ) X(kF8E4M3FNUZ) X(kF8E4M3) X(kF8E3M4) X(kF4E2M1FN) X(kF8E8M0FNU) X(kF6E2M3FN) X(kF6E3M2FN)
#define BACKPLANE_X(t)                         \
  template <>                                  \
  struct NativeTypeOf<PrimitiveType::t> {      \
    using type = SmallFloat<PrimitiveType::t>; \
  };
BACKPLANE_SMALL_FLOATS(BACKPLANE_X)
#undef BACKPLANE_X

template <PrimitiveType kType>
using NativeType = typename NativeTypeOf<kType>::type;

// The inverse mapping: kPrimitiveTypeOf<float> is kF32.
template <typename T>
constexpr PrimitiveType kPrimitiveTypeOf = PrimitiveType::kInvalid;
#define BACKPLANE_X(e, number, name, bits, cls) BACKPLANE_TYPE_OF_##cls(e)
#define BACKPLANE_TYPE_OF_Pred(e) BACKPLANE_TYPE_OF(e)
#define BACKPLANE_TYPE_OF_Signed(e) BACKPLANE_TYPE_OF(e)
#define BACKPLANE_TYPE_OF_Unsigned(e) BACKPLANE_TYPE_OF(e)
#define BACKPLANE_TYPE_OF_Float(e) BACKPLANE_TYPE_OF(e)
#define BACKPLANE_TYPE_OF_Complex(e) BACKPLANE_TYPE_OF(e)
#define BACKPLANE_TYPE_OF_None(e)
#define BACKPLANE_TYPE_OF(e) \
  template <>                \
  inline constexpr PrimitiveType kPrimitiveTypeOf<NativeType<PrimitiveType::e>> = PrimitiveType::e;
BACKPLANE_PRIMITIVE_TYPES(BACKPLANE_X)
#undef BACKPLANE_X
#undef BACKPLANE_TYPE_OF
#undef BACKPLANE_TYPE_OF_Pred
#undef BACKPLANE_TYPE_OF_Signed
#undef BACKPLANE_TYPE_OF_Unsigned
#undef BACKPLANE_TYPE_OF_Float
#undef BACKPLANE_TYPE_OF_Complex
#undef BACKPLANE_TYPE_OF_None

// The type in which arithmetic on an element type is done: float for f16 and bf16, otherwise the native type itself.
// Integers are not promoted, because they wrap at their own width. SmallFloat and SmallInt have no operators: convert
// them to float or int64_t first.
template <PrimitiveType kType>
using ComputeType =
    std::conditional_t<std::is_same_v<NativeType<kType>, f16> || std::is_same_v<NativeType<kType>, bf16>, float,
                       NativeType<kType>>;

template <PrimitiveType kType>
struct TypeTag {
  static constexpr PrimitiveType value = kType;
  using Native = NativeType<kType>;
};

// Calls fn(TypeTag<T>{}) with the C++ type T of an array type; fn must return the same type for every tag. Requires
// that `t` is an array type.
template <typename Fn>
decltype(auto) DispatchArrayType(PrimitiveType t, Fn&& fn) {
  switch (t) {
#define BACKPLANE_CASE(e) \
  case PrimitiveType::e:  \
    return fn(TypeTag<PrimitiveType::e>{});
    BACKPLANE_CASE(kS8)
    BACKPLANE_CASE(kS16)
    BACKPLANE_CASE(kS32)
    BACKPLANE_CASE(kS64) BACKPLANE_CASE(kU8) BACKPLANE_CASE(kU16) BACKPLANE_CASE(kU32) BACKPLANE_CASE(kU64)
        BACKPLANE_CASE(kF16) BACKPLANE_CASE(kBF16) BACKPLANE_CASE(kF32) BACKPLANE_CASE(kF64) BACKPLANE_CASE(kC64)
            BACKPLANE_CASE(kC128) BACKPLANE_CASE(kS1) BACKPLANE_CASE(kU1) BACKPLANE_CASE(kS2) BACKPLANE_CASE(kU2)
                BACKPLANE_CASE(kS4) BACKPLANE_CASE(kU4) BACKPLANE_SMALL_FLOATS(BACKPLANE_CASE)
#undef BACKPLANE_CASE
                    default : return fn(TypeTag<PrimitiveType::kPred>{});
  }
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_NUMERIC_H_
