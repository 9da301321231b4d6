// Element types and dense arrays of case files, and rounding of numbers to each type.
//
// The kit judges plugins, so it must not depend on their number formats: this code was written from the definitions of
// the formats (IEEE 754, the OCP 8-bit and microscaling formats, the FNUZ variants) and shares nothing with the core.
//
// Storage: an element takes `bytes` bytes, little-endian. Types narrower than a byte take one byte; integers are sign-
// or zero-extended, floats are in the low bits. This is the format of PJRT host buffers.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_TYPES_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_TYPES_H_

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::conformance {

enum class ElementType : uint8_t {
  kPred,
  kS2,
  kS4,
  kS8,
  kS16,
  kS32,
  kS64,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF4E2M1FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3B11FNUZ,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
};

enum class ElementClass : uint8_t { kPred, kSigned, kUnsigned, kFloat, kComplex };

// The special values of a float format: infinities and NaNs as in IEEE 754; no infinity, and NaN with all bits set
// except the sign; no infinity or negative zero, with NaN encoded as negative zero; neither infinity nor NaN.
enum class FloatKind : uint8_t { kNone, kIeee, kFn, kFnuz, kFinite, kExponentOnly };

struct ElementInfo {
  ElementType type;
  absl::string_view name;  // HLO spelling: "f32"
  absl::string_view mlir;  // StableHLO spelling: "f32", "ui8", "complex<f32>", "f8E4M3FN"
  ElementClass cls;
  int bits;                                // logical
  int bytes;                               // in storage
  FloatKind kind;                          // floats only
  int exponent_bits, mantissa_bits, bias;  // floats only
};

const ElementInfo& Info(ElementType type);
absl::Span<const ElementInfo> AllElementTypes();
std::optional<ElementType> ElementTypeFromName(absl::string_view name);  // HLO spelling
ElementType GetPartType(ElementType type);                               // c64 -> f32, c128 -> f64, others unchanged
std::optional<ElementType> GetComplexType(ElementType type);             // f32 -> c64, f64 -> c128
std::optional<ElementType> GetUnsignedType(ElementType type);            // the unsigned integer of the same width

// A dense array, last dimension fastest.
struct Array {
  ElementType type = ElementType::kF32;
  std::vector<int64_t> dims;
  std::string data;
  int64_t size() const;  // product of dims
};
std::string FormatShape(ElementType type, absl::Span<const int64_t> dims);  // "f32[2,3]"

// ---- Floats as bits in the low end of a word

// Rounds x to the nearest value of the format, ties to even. Overflow gives infinity if the format has one, else NaN,
// else the largest finite value. NaN gives negative zero in formats without NaN. Negative values give NaN in formats
// without a sign.
uint64_t RoundToBits(ElementType type, double x);
double DecodeBits(ElementType type, uint64_t bits);  // exact
bool IsNanBits(ElementType type, uint64_t bits);
uint64_t LargestFiniteBits(ElementType type);
uint64_t SmallestNormalBits(ElementType type);

// Returns the number of steps between two values of a format, counting both zeros as one. Neither may be NaN.
uint64_t ComputeUlpDistance(ElementType type, uint64_t a, uint64_t b);
// Returns the distance from |x| to the next larger value, at least the smallest subnormal number.
double ComputeUlp(ElementType type, double x);

// ---- One element of an array

uint64_t ReadBits(const Array& array, int64_t index, int part = 0);  // part 1: the imaginary part of a complex element
void WriteBits(Array* array, int64_t index, uint64_t bits, int part = 0);
double ReadReal(const Array& array, int64_t index, int part = 0);  // any class; a 64-bit integer may be rounded
int64_t ReadSigned(const Array& array, int64_t index);             // integers and pred, sign-extended
std::string FormatElement(const Array& array, int64_t index);      // "1.5", "nan", "-0", "(1,2)", "true"

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_TYPES_H_
