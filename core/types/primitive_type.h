// Element types of arrays: their numbers, names, widths and classes.
//
// The numbers equal those of XLA's PrimitiveType (xla_data.proto), which HLO protos and FFI dtypes use. XLA defines no
// numbers for f6 types; ours are beyond the published range. PJRT's buffer-type numbers differ; sdk/shim converts them.
//
// Storage: an element of a type narrower than a byte (s2 s4 u2 u4 s1 u1 f4 f6) takes one byte in literals and buffers,
// and integers are sign- or zero-extended. Elements are packed only at interfaces that request it.
#ifndef BACKPLANE_CORE_TYPES_PRIMITIVE_TYPE_H_
#define BACKPLANE_CORE_TYPES_PRIMITIVE_TYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace backplane {

// X(enumerator, number, text name, width in bits, class). The class is Pred, Signed, Unsigned, Float, Complex or None.
#define BACKPLANE_PRIMITIVE_TYPES(X)               \
  X(kPred, 1, "pred", 8, Pred)                     \
  X(kS8, 2, "s8", 8, Signed)                       \
  X(kS16, 3, "s16", 16, Signed)                    \
  X(kS32, 4, "s32", 32, Signed)                    \
  X(kS64, 5, "s64", 64, Signed)                    \
  X(kU8, 6, "u8", 8, Unsigned)                     \
  X(kU16, 7, "u16", 16, Unsigned)                  \
  X(kU32, 8, "u32", 32, Unsigned)                  \
  X(kU64, 9, "u64", 64, Unsigned)                  \
  X(kF16, 10, "f16", 16, Float)                    \
  X(kF32, 11, "f32", 32, Float)                    \
  X(kF64, 12, "f64", 64, Float)                    \
  X(kTuple, 13, "tuple", 0, None)                  \
  X(kOpaque, 14, "opaque", 0, None)                \
  X(kC64, 15, "c64", 64, Complex)                  \
  X(kBF16, 16, "bf16", 16, Float)                  \
  X(kToken, 17, "token", 0, None)                  \
  X(kC128, 18, "c128", 128, Complex)               \
  X(kF8E5M2, 19, "f8e5m2", 8, Float)               \
  X(kF8E4M3FN, 20, "f8e4m3fn", 8, Float)           \
  X(kS4, 21, "s4", 4, Signed)                      \
  X(kU4, 22, "u4", 4, Unsigned)                    \
  X(kF8E4M3B11FNUZ, 23, "f8e4m3b11fnuz", 8, Float) \
  X(kF8E5M2FNUZ, 24, "f8e5m2fnuz", 8, Float)       \
  X(kF8E4M3FNUZ, 25, "f8e4m3fnuz", 8, Float)       \
  X(kS2, 26, "s2", 2, Signed)                      \
  X(kU2, 27, "u2", 2, Unsigned)                    \
  X(kF8E4M3, 28, "f8e4m3", 8, Float)               \
  X(kF8E3M4, 29, "f8e3m4", 8, Float)               \
  X(kS1, 30, "s1", 1, Signed)                      \
  X(kU1, 31, "u1", 1, Unsigned)                    \
  X(kF4E2M1FN, 32, "f4e2m1fn", 4, Float)           \
  X(kF8E8M0FNU, 33, "f8e8m0fnu", 8, Float)         \
  X(kF6E2M3FN, 64, "f6e2m3fn", 6, Float)           \
  X(kF6E3M2FN, 65, "f6e3m2fn", 6, Float)

enum class PrimitiveType : uint8_t {
  kInvalid = 0,
#define BACKPLANE_X(e, number, name, bits, cls) e = number,
  BACKPLANE_PRIMITIVE_TYPES(BACKPLANE_X)
#undef BACKPLANE_X
};

// Returns the name in HLO text ("bf16"), or "invalid" for a number that is not a type.
absl::string_view Name(PrimitiveType t);
std::optional<PrimitiveType> PrimitiveTypeFromName(absl::string_view name);
bool IsValidPrimitiveType(int number);

int BitWidth(PrimitiveType t);   // logical bits; pred is 8; 0 for tuple, token, opaque
int ByteWidth(PrimitiveType t);  // bytes per element in a literal or buffer

bool IsArrayType(PrimitiveType t);  // all except tuple, token, opaque, invalid
bool IsSigned(PrimitiveType t);     // signed integers only
bool IsUnsigned(PrimitiveType t);
bool IsFloat(PrimitiveType t);
bool IsComplex(PrimitiveType t);
inline bool IsIntegral(PrimitiveType t) { return IsSigned(t) || IsUnsigned(t); }
inline bool IsSubByte(PrimitiveType t) { return BitWidth(t) > 0 && BitWidth(t) < 8; }
PrimitiveType ComplexPart(PrimitiveType t);     // c64 -> f32, c128 -> f64, others unchanged
PrimitiveType GetComplexType(PrimitiveType t);  // f32 -> c64, f64 -> c128, others kInvalid
PrimitiveType UnsignedOfWidth(int bits);        // u2 to u64; kInvalid if there is none of that width

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_PRIMITIVE_TYPE_H_
