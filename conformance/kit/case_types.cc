#include "conformance/kit/case_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace backplane::conformance {
namespace {

using T = ElementType;
using C = ElementClass;
using K = FloatKind;

constexpr ElementInfo kTypes[] = {
    {T::kPred, "pred", "i1", C::kPred, 1, 1, K::kNone, 0, 0, 0},
    {T::kS2, "s2", "i2", C::kSigned, 2, 1, K::kNone, 0, 0, 0},
    {T::kS4, "s4", "i4", C::kSigned, 4, 1, K::kNone, 0, 0, 0},
    {T::kS8, "s8", "i8", C::kSigned, 8, 1, K::kNone, 0, 0, 0},
    {T::kS16, "s16", "i16", C::kSigned, 16, 2, K::kNone, 0, 0, 0},
    {T::kS32, "s32", "i32", C::kSigned, 32, 4, K::kNone, 0, 0, 0},
    {T::kS64, "s64", "i64", C::kSigned, 64, 8, K::kNone, 0, 0, 0},
    {T::kU2, "u2", "ui2", C::kUnsigned, 2, 1, K::kNone, 0, 0, 0},
    {T::kU4, "u4", "ui4", C::kUnsigned, 4, 1, K::kNone, 0, 0, 0},
    {T::kU8, "u8", "ui8", C::kUnsigned, 8, 1, K::kNone, 0, 0, 0},
    {T::kU16, "u16", "ui16", C::kUnsigned, 16, 2, K::kNone, 0, 0, 0},
    {T::kU32, "u32", "ui32", C::kUnsigned, 32, 4, K::kNone, 0, 0, 0},
    {T::kU64, "u64", "ui64", C::kUnsigned, 64, 8, K::kNone, 0, 0, 0},
    {T::kF4E2M1FN, "f4e2m1fn", "f4E2M1FN", C::kFloat, 4, 1, K::kFinite, 2, 1, 1},
    {T::kF8E3M4, "f8e3m4", "f8E3M4", C::kFloat, 8, 1, K::kIeee, 3, 4, 3},
    {T::kF8E4M3, "f8e4m3", "f8E4M3", C::kFloat, 8, 1, K::kIeee, 4, 3, 7},
    {T::kF8E4M3FN, "f8e4m3fn", "f8E4M3FN", C::kFloat, 8, 1, K::kFn, 4, 3, 7},
    {T::kF8E4M3B11FNUZ, "f8e4m3b11fnuz", "f8E4M3B11FNUZ", C::kFloat, 8, 1, K::kFnuz, 4, 3, 11},
    {T::kF8E4M3FNUZ, "f8e4m3fnuz", "f8E4M3FNUZ", C::kFloat, 8, 1, K::kFnuz, 4, 3, 8},
    {T::kF8E5M2, "f8e5m2", "f8E5M2", C::kFloat, 8, 1, K::kIeee, 5, 2, 15},
    {T::kF8E5M2FNUZ, "f8e5m2fnuz", "f8E5M2FNUZ", C::kFloat, 8, 1, K::kFnuz, 5, 2, 16},
    {T::kF8E8M0FNU, "f8e8m0fnu", "f8E8M0FNU", C::kFloat, 8, 1, K::kExponentOnly, 8, 0, 127},
    {T::kF16, "f16", "f16", C::kFloat, 16, 2, K::kIeee, 5, 10, 15},
    {T::kBF16, "bf16", "bf16", C::kFloat, 16, 2, K::kIeee, 8, 7, 127},
    {T::kF32, "f32", "f32", C::kFloat, 32, 4, K::kIeee, 8, 23, 127},
    {T::kF64, "f64", "f64", C::kFloat, 64, 8, K::kIeee, 11, 52, 1023},
    {T::kC64, "c64", "complex<f32>", C::kComplex, 64, 8, K::kNone, 0, 0, 0},
    {T::kC128, "c128", "complex<f64>", C::kComplex, 128, 16, K::kNone, 0, 0, 0},
};

uint64_t Mask(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
uint64_t SignBit(const ElementInfo& t) {
  return t.kind == K::kExponentOnly ? 0 : uint64_t{1} << (t.exponent_bits + t.mantissa_bits);
}
uint64_t NanBits(const ElementInfo& t) {
  switch (t.kind) {
    case K::kIeee:
      return (Mask(t.exponent_bits) << t.mantissa_bits) | (uint64_t{1} << (t.mantissa_bits - 1));
    case K::kFn:
      return Mask(t.exponent_bits + t.mantissa_bits);
    case K::kFnuz:
      return SignBit(t);
    case K::kExponentOnly:
      return 0xff;
    default:
      return SignBit(t);  // f4: represented by negative zero
  }
}

}  // namespace

const ElementInfo& Info(ElementType type) { return kTypes[static_cast<int>(type)]; }
absl::Span<const ElementInfo> AllElementTypes() { return kTypes; }

std::optional<ElementType> ElementTypeFromName(absl::string_view name) {
  for (const ElementInfo& t : kTypes) {
    if (t.name == name) return t.type;
  }
  return std::nullopt;
}

ElementType GetPartType(ElementType type) { return type == T::kC64 ? T::kF32 : type == T::kC128 ? T::kF64 : type; }

std::optional<ElementType> GetComplexType(ElementType type) {
  if (type == T::kF32) return T::kC64;
  if (type == T::kF64) return T::kC128;
  return std::nullopt;
}

std::optional<ElementType> GetUnsignedType(ElementType type) {
  for (const ElementInfo& t : kTypes) {
    if (t.cls == C::kUnsigned && t.bits == Info(type).bits) return t.type;
  }
  return std::nullopt;
}

int64_t Array::size() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::string FormatShape(ElementType type, absl::Span<const int64_t> dims) {
  return absl::StrCat(Info(type).name, "[", absl::StrJoin(dims, ","), "]");
}

uint64_t LargestFiniteBits(ElementType type) {
  const ElementInfo& t = Info(type);
  const uint64_t all = Mask(t.exponent_bits + t.mantissa_bits);
  switch (t.kind) {
    case K::kIeee:
      return (Mask(t.exponent_bits) << t.mantissa_bits) - 1;
    case K::kFn:
    case K::kExponentOnly:
      return all - 1;
    default:
      return all;
  }
}

uint64_t SmallestNormalBits(ElementType type) {
  return Info(type).kind == K::kExponentOnly ? 0 : uint64_t{1} << Info(type).mantissa_bits;
}

uint64_t RoundToBits(ElementType type, double x) {
  const ElementInfo& t = Info(type);
  if (type == T::kF64) return std::bit_cast<uint64_t>(x);
  if (std::isnan(x)) return NanBits(t) | (std::signbit(x) && t.kind != K::kFnuz ? SignBit(t) : 0);
  const double magnitude = std::fabs(x);
  if (t.kind == K::kExponentOnly) {  // powers of two, 2^-127 to 2^127; no sign, no zero
    if (x <= 0 || std::isinf(x)) return NanBits(t);
    int e;
    const double f = std::frexp(magnitude, &e);  // f in [0.5, 1)
    int field = e - 1 + t.bias;
    // Half way between 2^k and 2^(k+1) the even exponent field wins.
    if (f > 0.75 || (f == 0.75 && (field & 1))) ++field;
    return field < 0 ? 0 : field > 254 ? NanBits(t) : static_cast<uint64_t>(field);
  }
  const bool negative = std::signbit(x);
  uint64_t bits;
  const uint64_t past_end = t.kind == K::kIeee     ? Mask(t.exponent_bits) << t.mantissa_bits
                            : t.kind == K::kFinite ? LargestFiniteBits(type)
                                                   : NanBits(t);
  if (std::isinf(x)) {
    bits = past_end;
  } else {
    // Divides by the spacing of the format at this magnitude; std::nearbyint rounds ties to even.
    int e;
    std::frexp(magnitude, &e);
    const int exponent = std::max(e - 1, 1 - t.bias);  // unbiased; subnormals share the smallest one
    const double steps = std::nearbyint(std::ldexp(magnitude, t.mantissa_bits - exponent));
    // The bit patterns of subnormals and normals are consecutive, so rounding up carries into the exponent.
    const uint64_t s = static_cast<uint64_t>(steps);
    bits = magnitude == 0 ? 0 : (static_cast<uint64_t>(exponent + t.bias - 1) << t.mantissa_bits) + s;
    if (bits > LargestFiniteBits(type)) bits = past_end;
  }
  if (!negative) return bits;
  if (t.kind == K::kFnuz) return bits == 0 || bits == NanBits(t) ? bits : bits | SignBit(t);
  return bits | SignBit(t);
}

double DecodeBits(ElementType type, uint64_t bits) {
  const ElementInfo& t = Info(type);
  if (type == T::kF64) return std::bit_cast<double>(bits);
  if (IsNanBits(type, bits)) return std::copysign(std::numeric_limits<double>::quiet_NaN(), bits & SignBit(t) ? -1 : 1);
  if (t.kind == K::kExponentOnly) return std::ldexp(1.0, static_cast<int>(bits) - t.bias);
  const bool negative = bits & SignBit(t);
  const int field = static_cast<int>((bits >> t.mantissa_bits) & Mask(t.exponent_bits));
  const uint64_t mantissa = bits & Mask(t.mantissa_bits);
  double value;
  if (t.kind == K::kIeee && field == static_cast<int>(Mask(t.exponent_bits))) {
    value = std::numeric_limits<double>::infinity();
  } else if (field == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - t.bias - t.mantissa_bits);
  } else {
    value =
        std::ldexp(static_cast<double>(mantissa | (uint64_t{1} << t.mantissa_bits)), field - t.bias - t.mantissa_bits);
  }
  return negative ? -value : value;
}

bool IsNanBits(ElementType type, uint64_t bits) {
  const ElementInfo& t = Info(type);
  const uint64_t magnitude = bits & Mask(t.exponent_bits + t.mantissa_bits);
  switch (t.kind) {
    case K::kIeee:
      return magnitude > (Mask(t.exponent_bits) << t.mantissa_bits);
    case K::kFn:
    case K::kExponentOnly:
      return magnitude == Mask(t.exponent_bits + t.mantissa_bits);
    case K::kFnuz:
      return bits == SignBit(t);
    default:
      return false;
  }
}

uint64_t ComputeUlpDistance(ElementType type, uint64_t a, uint64_t b) {
  const uint64_t sign = SignBit(Info(type));
  const uint64_t x = a & ~sign, y = b & ~sign;
  const bool same_side = sign == 0 || (a & sign) == (b & sign);
  return same_side ? (x > y ? x - y : y - x) : x + y;
}

double ComputeUlp(ElementType type, double x) {
  const uint64_t at = std::min(RoundToBits(type, std::fabs(x)), LargestFiniteBits(type) - 1);
  return DecodeBits(type, at + 1) - DecodeBits(type, at);
}

uint64_t ReadBits(const Array& array, int64_t index, int part) {
  const ElementInfo& t = Info(array.type);
  const int width = t.cls == C::kComplex ? t.bytes / 2 : t.bytes;
  uint64_t bits = 0;
  std::memcpy(&bits, array.data.data() + index * t.bytes + part * width, width);
  return t.cls == C::kPred ? bits : bits & Mask(t.cls == C::kComplex ? t.bits / 2 : t.bits);
}

void WriteBits(Array* array, int64_t index, uint64_t bits, int part) {
  const ElementInfo& t = Info(array->type);
  const int width = t.cls == C::kComplex ? t.bytes / 2 : t.bytes;
  if (t.bits < 8) {
    bits &= Mask(t.bits);
    if (t.cls == C::kSigned && (bits >> (t.bits - 1))) bits |= ~Mask(t.bits);
  }
  std::memcpy(array->data.data() + index * t.bytes + part * width, &bits, width);
}

int64_t ReadSigned(const Array& array, int64_t index) {
  const ElementInfo& t = Info(array.type);
  const uint64_t bits = ReadBits(array, index);
  if (t.cls != C::kSigned || t.bits == 64) return static_cast<int64_t>(bits);
  return static_cast<int64_t>(bits << (64 - t.bits)) >> (64 - t.bits);
}

double ReadReal(const Array& array, int64_t index, int part) {
  switch (Info(array.type).cls) {
    case C::kFloat:
    case C::kComplex:
      return DecodeBits(GetPartType(array.type), ReadBits(array, index, part));
    case C::kSigned:
      return static_cast<double>(ReadSigned(array, index));
    default:
      return static_cast<double>(ReadBits(array, index));
  }
}

std::string FormatElement(const Array& array, int64_t index) {
  const auto number = [&](int part) -> std::string {
    const double x = ReadReal(array, index, part);
    const int digits = Info(GetPartType(array.type)).bits == 64 ? 17 : 9;
    return std::isnan(x) ? "nan" : std::isinf(x) ? (x < 0 ? "-inf" : "inf") : absl::StrFormat("%.*g", digits, x);
  };
  switch (Info(array.type).cls) {
    case C::kPred:
      return ReadBits(array, index) == 0 ? "false" : ReadBits(array, index) == 1 ? "true" : "an invalid pred";
    case C::kSigned:
      return absl::StrCat(ReadSigned(array, index));
    case C::kUnsigned:
      return absl::StrCat(ReadBits(array, index));
    case C::kFloat:
      return number(0);
    case C::kComplex:
      return absl::StrCat("(", number(0), ",", number(1), ")");
  }
  return "";
}

}  // namespace backplane::conformance
