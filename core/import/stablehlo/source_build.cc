#include "core/import/stablehlo/source_build.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace backplane::stablehlo {
namespace {

constexpr size_t kScalarCount = static_cast<size_t>(ElementKind::kF8E8M0FNU) + 1;

std::array<SourceType, kScalarCount> MakeScalars() {
  std::array<SourceType, kScalarCount> all;
  for (size_t i = 0; i < kScalarCount; ++i) {
    all[i].kind = TypeKind::kScalar;
    all[i].element = static_cast<ElementKind>(i);
  }
  return all;
}

SourceAttr* NewAttr(SourceArena& arena, AttrKind kind) {
  SourceAttr* a = arena.New<SourceAttr>();
  a->kind = kind;
  return a;
}

SourceAttr* NewText(SourceArena& arena, AttrKind kind, absl::string_view text) {
  SourceAttr* a = NewAttr(arena, kind);
  a->text = text;
  return a;
}

}  // namespace

const SourceType* ScalarType(ElementKind kind) {
  static const std::array<SourceType, kScalarCount> all = MakeScalars();
  return &all[static_cast<size_t>(kind)];
}

const SourceType* NoneType() {
  static const SourceType none;
  return &none;
}

const SourceType* TokenType() {
  static const SourceType token = [] {
    SourceType t;
    t.kind = TypeKind::kToken;
    return t;
  }();
  return &token;
}

// The element types that both HLO and StableHLO have.
constexpr std::pair<ElementKind, PrimitiveType> kElementTypes[] = {
    {ElementKind::kBool, PrimitiveType::kPred},
    {ElementKind::kI2, PrimitiveType::kS2},
    {ElementKind::kI4, PrimitiveType::kS4},
    {ElementKind::kI8, PrimitiveType::kS8},
    {ElementKind::kI16, PrimitiveType::kS16},
    {ElementKind::kI32, PrimitiveType::kS32},
    {ElementKind::kI64, PrimitiveType::kS64},
    {ElementKind::kU2, PrimitiveType::kU2},
    {ElementKind::kU4, PrimitiveType::kU4},
    {ElementKind::kU8, PrimitiveType::kU8},
    {ElementKind::kU16, PrimitiveType::kU16},
    {ElementKind::kU32, PrimitiveType::kU32},
    {ElementKind::kU64, PrimitiveType::kU64},
    {ElementKind::kBF16, PrimitiveType::kBF16},
    {ElementKind::kF16, PrimitiveType::kF16},
    {ElementKind::kF32, PrimitiveType::kF32},
    {ElementKind::kF64, PrimitiveType::kF64},
    {ElementKind::kF8E4M3FN, PrimitiveType::kF8E4M3FN},
    {ElementKind::kF8E5M2, PrimitiveType::kF8E5M2},
    {ElementKind::kF8E4M3FNUZ, PrimitiveType::kF8E4M3FNUZ},
    {ElementKind::kF8E5M2FNUZ, PrimitiveType::kF8E5M2FNUZ},
    {ElementKind::kF8E4M3B11FNUZ, PrimitiveType::kF8E4M3B11FNUZ},
    {ElementKind::kF8E4M3, PrimitiveType::kF8E4M3},
    {ElementKind::kF8E3M4, PrimitiveType::kF8E3M4},
    {ElementKind::kF4E2M1FN, PrimitiveType::kF4E2M1FN},
    {ElementKind::kF6E2M3FN, PrimitiveType::kF6E2M3FN},
    {ElementKind::kF6E3M2FN, PrimitiveType::kF6E3M2FN},
    {ElementKind::kF8E8M0FNU, PrimitiveType::kF8E8M0FNU},
};

PrimitiveType GetPrimitiveType(ElementKind kind) {
  if (kind == ElementKind::kIndex) return PrimitiveType::kS64;
  for (const auto& [element, type] : kElementTypes) {
    if (element == kind) return type;
  }
  return PrimitiveType::kInvalid;
}

const SourceType* FindScalarType(PrimitiveType type) {
  for (const auto& [element, own] : kElementTypes) {
    if (own == type) return ScalarType(element);
  }
  return nullptr;
}

const SourceType* MakeTensorType(SourceArena& arena, absl::Span<const int64_t> dims, const SourceType* element) {
  SourceType* t = arena.New<SourceType>();
  t->kind = TypeKind::kTensor;
  t->dims = arena.Copy(dims);
  t->inner = element;
  return t;
}

const SourceAttr* MakeUnit(SourceArena& arena) { return NewAttr(arena, AttrKind::kUnit); }

const SourceAttr* MakeBool(SourceArena& arena, bool value) {
  SourceAttr* a = NewAttr(arena, AttrKind::kBool);
  a->integer = value;
  return a;
}

const SourceAttr* MakeInteger(SourceArena& arena, int64_t value, ElementKind kind) {
  SourceAttr* a = NewAttr(arena, AttrKind::kInteger);
  a->integer = value;
  a->type = ScalarType(kind);
  return a;
}

const SourceAttr* MakeFloat(SourceArena& arena, uint64_t bits, ElementKind kind) {
  SourceAttr* a = NewAttr(arena, AttrKind::kFloat);
  a->bits = bits;
  a->type = ScalarType(kind);
  return a;
}

const SourceAttr* MakeString(SourceArena& arena, absl::string_view text) {
  return NewText(arena, AttrKind::kString, text);
}
const SourceAttr* MakeEnum(SourceArena& arena, absl::string_view text) { return NewText(arena, AttrKind::kEnum, text); }
const SourceAttr* MakeShardy(SourceArena& arena, absl::string_view text) {
  return NewText(arena, AttrKind::kShardy, text);
}

const SourceAttr* MakeType(SourceArena& arena, const SourceType* type) {
  SourceAttr* a = NewAttr(arena, AttrKind::kType);
  a->type = type;
  return a;
}

const SourceAttr* MakeArray(SourceArena& arena, const std::vector<const SourceAttr*>& elements) {
  SourceAttr* a = NewAttr(arena, AttrKind::kArray);
  a->elements = arena.Copy(elements);
  return a;
}

const SourceAttr* MakeI64List(SourceArena& arena, absl::Span<const int64_t> values) {
  int64_t n = static_cast<int64_t>(values.size());
  const SourceType* type = MakeTensorType(arena, {n}, ScalarType(ElementKind::kI64));
  char* bytes = arena.NewBytes(values.size() * 8);
  for (size_t i = 0; i < values.size(); ++i) {
    for (int b = 0; b < 8; ++b) bytes[8 * i + b] = static_cast<char>(static_cast<uint64_t>(values[i]) >> (8 * b));
  }
  return MakeDense(arena, type, absl::string_view(bytes, values.size() * 8), false);
}

const SourceAttr* MakeDense(SourceArena& arena, const SourceType* type, absl::string_view bytes, bool splat) {
  SourceAttr* a = NewAttr(arena, AttrKind::kDense);
  a->type = type;
  a->text = bytes;
  a->splat = splat;
  return a;
}

bool WeighType(SourceType* type) {
  uint64_t sum = 1 + type->dims.size() + (type->inner ? type->inner->weight : 0);
  for (const SourceType* t : type->members) sum += t->weight;
  for (const SourceType* t : type->results) sum += t->weight;
  if (type->quantization) sum += type->quantization->scales.size();
  type->weight = static_cast<uint32_t>(std::min<uint64_t>(sum, kMaxTypeWeight + 1));
  return sum <= kMaxTypeWeight;
}

bool WeighAttribute(SourceAttr* attr) {
  uint64_t sum = 1 + (attr->type ? attr->type->weight : 0);
  for (const SourceAttr* a : attr->elements) sum += a->weight;
  for (const SourceNamedAttr& e : attr->entries) sum += e.value->weight;
  if (attr->kind == AttrKind::kShardy) sum += attr->text.size();
  attr->weight = static_cast<uint32_t>(std::min<uint64_t>(sum, kMaxAttributeWeight + 1));
  return sum <= kMaxAttributeWeight;
}

bool SortEntries(std::vector<SourceNamedAttr>* entries, absl::string_view* repeated) {
  std::sort(entries->begin(), entries->end(),
            [](const SourceNamedAttr& a, const SourceNamedAttr& b) { return a.name < b.name; });
  for (size_t i = 1; i < entries->size(); ++i) {
    if ((*entries)[i].name == (*entries)[i - 1].name) {
      *repeated = (*entries)[i].name;
      return false;
    }
  }
  return true;
}

const SourceAttr* MakeDict(SourceArena& arena, std::vector<SourceNamedAttr> entries) {
  absl::string_view repeated;
  SortEntries(&entries, &repeated);
  SourceAttr* a = NewAttr(arena, AttrKind::kDict);
  a->entries = arena.Copy(entries);
  return a;
}

absl::StatusOr<std::vector<int64_t>> ReadDenseIntegers(const SourceAttr* attr, int64_t limit) {
  if (attr == nullptr || attr->kind != AttrKind::kDense || attr->type->inner->kind != TypeKind::kScalar ||
      IsFloatElement(attr->type->inner->element)) {
    return absl::InvalidArgumentError("expected a tensor of integers");
  }
  int64_t n = 0;
  if (!CountStaticElements(attr->type->dims, &n) || n > limit) {
    return absl::InvalidArgumentError(absl::StrCat("integer list ", TypeToString(attr->type), " is too large"));
  }
  ElementKind kind = attr->type->inner->element;
  int size = ElementStorageBytes(kind), bits = ElementBits(kind);
  auto at = [&](int64_t i) {
    uint64_t v = 0;
    for (int b = 0; b < size; ++b) {
      v |= static_cast<uint64_t>(static_cast<unsigned char>(attr->text[i * size + b])) << (8 * b);
    }
    if (!IsUnsignedElement(kind) && bits < 64) return static_cast<int64_t>(v << (64 - bits)) >> (64 - bits);
    return static_cast<int64_t>(v);
  };
  std::vector<int64_t> out(n);
  for (int64_t i = 0; i < n; ++i) out[i] = at(attr->splat ? 0 : i);
  return out;
}

namespace {

struct EnumRow {
  EnumKind kind;
  uint64_t value;
  const char* name;
};
constexpr EnumRow kEnums[] = {
    {EnumKind::kComparisonDirection, 0, "EQ"},
    {EnumKind::kComparisonDirection, 1, "NE"},
    {EnumKind::kComparisonDirection, 2, "GE"},
    {EnumKind::kComparisonDirection, 3, "GT"},
    {EnumKind::kComparisonDirection, 4, "LE"},
    {EnumKind::kComparisonDirection, 5, "LT"},
    {EnumKind::kComparisonType, 0, "NOTYPE"},
    {EnumKind::kComparisonType, 1, "FLOAT"},
    {EnumKind::kComparisonType, 2, "TOTALORDER"},
    {EnumKind::kComparisonType, 3, "SIGNED"},
    {EnumKind::kComparisonType, 4, "UNSIGNED"},
    {EnumKind::kCustomCallApi, 0, "API_VERSION_UNSPECIFIED"},
    {EnumKind::kCustomCallApi, 1, "API_VERSION_ORIGINAL"},
    {EnumKind::kCustomCallApi, 2, "API_VERSION_STATUS_RETURNING"},
    {EnumKind::kCustomCallApi, 3, "API_VERSION_STATUS_RETURNING_UNIFIED"},
    {EnumKind::kCustomCallApi, 4, "API_VERSION_TYPED_FFI"},
    {EnumKind::kFft, 0, "FFT"},
    {EnumKind::kFft, 1, "IFFT"},
    {EnumKind::kFft, 2, "RFFT"},
    {EnumKind::kFft, 3, "IRFFT"},
    {EnumKind::kPrecision, 0, "DEFAULT"},
    {EnumKind::kPrecision, 1, "HIGH"},
    {EnumKind::kPrecision, 2, "HIGHEST"},
    {EnumKind::kRngAlgorithm, 0, "DEFAULT"},
    {EnumKind::kRngAlgorithm, 1, "THREE_FRY"},
    {EnumKind::kRngAlgorithm, 2, "PHILOX"},
    {EnumKind::kRngDistribution, 1, "UNIFORM"},
    {EnumKind::kRngDistribution, 2, "NORMAL"},
    {EnumKind::kTranspose, 0, "TRANSPOSE_INVALID"},
    {EnumKind::kTranspose, 1, "NO_TRANSPOSE"},
    {EnumKind::kTranspose, 2, "TRANSPOSE"},
    {EnumKind::kTranspose, 3, "ADJOINT"},
    {EnumKind::kAccuracyMode, 0, "DEFAULT"},
    {EnumKind::kAccuracyMode, 1, "HIGHEST"},
    {EnumKind::kAccuracyMode, 2, "TOLERANCE"},
};

}  // namespace

absl::string_view EnumName(EnumKind kind, uint64_t value) {
  for (const EnumRow& row : kEnums) {
    if (row.kind == kind && row.value == value) return row.name;
  }
  return {};
}

bool IsEnumName(EnumKind kind, absl::string_view name) {
  for (const EnumRow& row : kEnums) {
    if (row.kind == kind && name == row.name) return true;
  }
  return false;
}

}  // namespace backplane::stablehlo
