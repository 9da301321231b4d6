#include "core/types/primitive_type.h"

#include <array>

namespace backplane {
namespace {

enum class Class : uint8_t { None, Pred, Signed, Unsigned, Float, Complex };

struct Row {
  const char* name = nullptr;
  int bits = 0;
  Class cls = Class::None;
};

constexpr int kNumbers = 66;

constexpr std::array<Row, kNumbers> MakeRows() {
  std::array<Row, kNumbers> rows{};
#define BACKPLANE_X(e, number, text, width, c) rows[number] = Row{text, width, Class::c};
  BACKPLANE_PRIMITIVE_TYPES(BACKPLANE_X)
#undef BACKPLANE_X
  return rows;
}
constexpr std::array<Row, kNumbers> kRows = MakeRows();

const Row& GetRow(PrimitiveType t) {
  const int n = static_cast<int>(t);
  return kRows[n < kNumbers ? n : 0];
}

}  // namespace

absl::string_view Name(PrimitiveType t) {
  const Row& row = GetRow(t);
  return row.name ? row.name : "invalid";
}

std::optional<PrimitiveType> PrimitiveTypeFromName(absl::string_view name) {
  for (int i = 0; i < kNumbers; ++i) {
    if (kRows[i].name && name == kRows[i].name) return static_cast<PrimitiveType>(i);
  }
  return std::nullopt;
}

bool IsValidPrimitiveType(int number) { return number > 0 && number < kNumbers && kRows[number].name; }

int BitWidth(PrimitiveType t) { return GetRow(t).bits; }
int ByteWidth(PrimitiveType t) { return (GetRow(t).bits + 7) / 8; }
bool IsArrayType(PrimitiveType t) { return GetRow(t).cls != Class::None; }
bool IsSigned(PrimitiveType t) { return GetRow(t).cls == Class::Signed; }
bool IsUnsigned(PrimitiveType t) { return GetRow(t).cls == Class::Unsigned; }
bool IsFloat(PrimitiveType t) { return GetRow(t).cls == Class::Float; }
bool IsComplex(PrimitiveType t) { return GetRow(t).cls == Class::Complex; }

PrimitiveType ComplexPart(PrimitiveType t) {
  if (t == PrimitiveType::kC64) return PrimitiveType::kF32;
  if (t == PrimitiveType::kC128) return PrimitiveType::kF64;
  return t;
}

PrimitiveType GetComplexType(PrimitiveType t) {
  if (t == PrimitiveType::kF32) return PrimitiveType::kC64;
  if (t == PrimitiveType::kF64) return PrimitiveType::kC128;
  return PrimitiveType::kInvalid;
}

PrimitiveType UnsignedOfWidth(int bits) {
  switch (bits) {
    case 2:
      return PrimitiveType::kU2;
    case 4:
      return PrimitiveType::kU4;
    case 8:
      return PrimitiveType::kU8;
    case 16:
      return PrimitiveType::kU16;
    case 32:
      return PrimitiveType::kU32;
    default:
      return bits == 64 ? PrimitiveType::kU64 : PrimitiveType::kInvalid;
  }
}

}  // namespace backplane
