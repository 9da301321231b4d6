#include <cstring>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/bytecode_entries.h"
#include "core/import/stablehlo/source_build.h"

namespace backplane::stablehlo {
namespace {

// VHLO scalar type codes; kNotScalar marks codes that are no scalars.
constexpr int kNotScalar = -1;
constexpr int E(ElementKind kind) { return static_cast<int>(kind); }
constexpr int kVhloScalars[] = {
    E(ElementKind::kBool),
    kNotScalar,
    E(ElementKind::kBF16),
    E(ElementKind::kF16),
    E(ElementKind::kF32),
    E(ElementKind::kF64),
    E(ElementKind::kF8E4M3FN),
    E(ElementKind::kF8E5M2),
    kNotScalar,
    E(ElementKind::kIndex),
    E(ElementKind::kI4),
    E(ElementKind::kI8),
    E(ElementKind::kI16),
    E(ElementKind::kI32),
    E(ElementKind::kI64),
    E(ElementKind::kU4),
    E(ElementKind::kU8),
    E(ElementKind::kU16),
    E(ElementKind::kU32),
    E(ElementKind::kU64),
    kNotScalar,
    kNotScalar,
    kNotScalar,
    kNotScalar,
    kNotScalar,
    kNotScalar,
    kNotScalar,  // 20..26
    E(ElementKind::kF8E4M3FNUZ),
    E(ElementKind::kF8E5M2FNUZ),
    E(ElementKind::kF8E4M3B11FNUZ),
    kNotScalar,
    E(ElementKind::kI2),
    E(ElementKind::kU2),
    kNotScalar,
    E(ElementKind::kTF32),
    E(ElementKind::kF8E4M3),
    E(ElementKind::kF8E3M4),
    E(ElementKind::kF4E2M1FN),
    E(ElementKind::kF6E2M3FN),
    E(ElementKind::kF6E3M2FN),
    E(ElementKind::kF8E8M0FNU),
};

// The builtin dialect's codes from 21 on: the float types that were added last.
constexpr uint64_t kBuiltinFloatsFrom = 21;
constexpr ElementKind kBuiltinFloats[] = {
    ElementKind::kTF32,       ElementKind::kF8E5M2,     ElementKind::kF8E4M3,        ElementKind::kF8E4M3FN,
    ElementKind::kF8E5M2FNUZ, ElementKind::kF8E4M3FNUZ, ElementKind::kF8E4M3B11FNUZ, ElementKind::kF8E3M4,
    ElementKind::kF4E2M1FN,   ElementKind::kF6E2M3FN,   ElementKind::kF6E3M2FN,      ElementKind::kF8E8M0FNU,
};

double DoubleFromBits(int64_t bits) {
  double d;
  std::memcpy(&d, &bits, sizeof d);
  return d;
}

}  // namespace

bool BytecodeEntries::ReadTypeList(ByteReader& in, absl::Span<const SourceType* const>* types) {
  uint64_t n = in.Count("types");
  std::vector<const SourceType*> list;
  for (uint64_t i = 0; i < n && in.ok(); ++i) list.push_back(ReadType(in));
  if (!in.ok()) return false;
  *types = arena_.Copy(list);
  return true;
}

std::vector<int64_t> BytecodeEntries::ReadI64Vector(ByteReader& in) {
  uint64_t n = in.Count("integers");
  std::vector<int64_t> values;
  values.reserve(n);
  for (uint64_t i = 0; i < n && in.ok(); ++i) values.push_back(in.SignedVarint());
  return values;
}

const SourceType* BytecodeEntries::ReadTensorType(ByteReader& in, TypeKind kind, bool encoded) {
  const SourceAttr* encoding = encoded ? ReadAttribute(in) : nullptr;
  std::vector<int64_t> dims = ReadI64Vector(in);
  const SourceType* element = ReadType(in);
  if (!in.ok()) return nullptr;
  for (int64_t d : dims) {
    if (d < 0 && d != kDynamic) {
      in.Fail(absl::StrCat("tensor dimension ", d));
      return nullptr;
    }
  }
  if (element->kind != TypeKind::kScalar && element->kind != TypeKind::kComplex &&
      element->kind != TypeKind::kQuantized && element->kind != TypeKind::kOpaque) {
    in.Fail(absl::StrCat("tensor of ", TypeToString(element)));
    return nullptr;
  }
  if (dims.size() > kMaxRank) {
    in.Fail(absl::StrCat("tensor of rank ", dims.size(), ", at most ", kMaxRank, " is read"));
    return nullptr;
  }
  SourceType* t = arena_.New<SourceType>();
  t->kind = kind;
  t->dims = arena_.Copy(dims);
  t->inner = element;
  if (encoding == nullptr) return t;
  if (encoding->kind != AttrKind::kDense) {
    t->encoding = encoding;
    return t;
  }
  absl::StatusOr<std::vector<int64_t>> bounds = ReadDenseIntegers(encoding);
  if (!bounds.ok() || bounds->size() != dims.size()) {
    in.Fail(absl::StrCat("tensor of rank ", dims.size(), " with bounds of another rank"));
    return nullptr;
  }
  for (int64_t b : *bounds) {
    if (b < 0 && b != kDynamic) in.Fail(absl::StrCat("tensor dimension bound ", b));
  }
  t->bounds = arena_.Copy(*bounds);
  return t;
}

const SourceType* BytecodeEntries::DecodeQuantized(ByteReader& in, bool per_axis) {
  SourceQuantization* q = arena_.New<SourceQuantization>();
  q->storage_signed = in.Varint() & 1;
  q->storage = ReadType(in);
  q->expressed = ReadType(in);
  if (per_axis) {
    uint64_t axis = in.Varint();
    if (axis > 1000) in.Fail(absl::StrCat("quantized dimension ", axis));
    q->axis = static_cast<int64_t>(axis);
    q->storage_min = in.SignedVarint();
    q->storage_max = in.SignedVarint();
    std::vector<double> scales;
    for (int64_t bits : ReadI64Vector(in)) scales.push_back(DoubleFromBits(bits));
    std::vector<int64_t> zeros = ReadI64Vector(in);
    if (in.ok() && zeros.size() != scales.size()) {
      in.Fail(absl::StrCat(scales.size(), " scales, ", zeros.size(), " zero points"));
    }
    q->scales = arena_.Copy(scales);
    q->zero_points = arena_.Copy(zeros);
  } else {
    double scale = DoubleFromBits(in.SignedVarint());
    int64_t zero = in.SignedVarint();
    q->storage_min = in.SignedVarint();
    q->storage_max = in.SignedVarint();
    q->scales = arena_.Copy(absl::Span<const double>(&scale, 1));
    q->zero_points = arena_.Copy(absl::Span<const int64_t>(&zero, 1));
  }
  if (!in.ok()) return nullptr;
  if (q->storage->kind != TypeKind::kScalar || IsFloatElement(q->storage->element) ||
      q->expressed->kind != TypeKind::kScalar || !IsFloatElement(q->expressed->element)) {
    in.Fail("quantized type needs an integer storage type and a float expressed type");
    return nullptr;
  }
  SourceType* t = arena_.New<SourceType>();
  t->kind = TypeKind::kQuantized;
  t->quantization = q;
  return t;
}

const SourceType* BytecodeEntries::DecodeVhloType(ByteReader& in, uint64_t code) {
  if (code < sizeof(kVhloScalars) / sizeof(int) && kVhloScalars[code] != kNotScalar) {
    return ScalarType(static_cast<ElementKind>(kVhloScalars[code]));
  }
  SourceType* t = nullptr;
  switch (code) {
    case 1: {
      const SourceType* part = ReadType(in);
      if (!in.ok()) return nullptr;
      if (part->kind != TypeKind::kScalar) {
        in.Fail(absl::StrCat("complex of ", TypeToString(part)));
        return nullptr;
      }
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kComplex;
      t->inner = part;
      return t;
    }
    case 8:
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kFunction;
      return ReadTypeList(in, &t->members) && ReadTypeList(in, &t->results) ? t : nullptr;
    case 20:
      return ReadTensorType(in, TypeKind::kTensor, false);
    case 21:
      return ReadTensorType(in, TypeKind::kTensor, true);
    case 22:
      return TokenType();
    case 23:
    case 42:
      t = arena_.New<SourceType>();
      t->kind = code == 23 ? TypeKind::kTuple : TypeKind::kFuture;
      return ReadTypeList(in, &t->members) ? t : nullptr;
    case 24:
      return DecodeQuantized(in, false);
    case 25:
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kUnrankedTensor;
      t->inner = ReadType(in);
      return t;
    case 26:
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kWitness;
      return t;
    case 30:
      return DecodeQuantized(in, true);
    case 33:
      return NoneType();
    case 41:
      return ReadTensorType(in, TypeKind::kBuffer, false);
    default:
      in.Fail(absl::StrCat("unknown vhlo type code ", code));
      return nullptr;
  }
}

const SourceType* BytecodeEntries::DecodeBuiltinType(ByteReader& in, uint64_t code) {
  SourceType* t = nullptr;
  switch (code) {
    case 0: {
      uint64_t packed = in.Varint();
      uint64_t width = packed >> 2, sign = packed & 3;
      ElementKind kind;
      std::string name = absl::StrCat(sign == 2 && width != 1 ? "ui" : "i", width);
      if (in.ok() && (sign > 2 || !ElementFromName(name, &kind))) {
        in.Fail(absl::StrCat("integer type of ", width, " bits"));
      }
      return in.ok() ? ScalarType(kind) : nullptr;
    }
    case 1:
      return ScalarType(ElementKind::kIndex);
    case 2:
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kFunction;
      return ReadTypeList(in, &t->members) && ReadTypeList(in, &t->results) ? t : nullptr;
    case 3:
      return ScalarType(ElementKind::kBF16);
    case 4:
      return ScalarType(ElementKind::kF16);
    case 5:
      return ScalarType(ElementKind::kF32);
    case 6:
      return ScalarType(ElementKind::kF64);
    case 9:
      return DecodeVhloType(in, 1);
    case 12:
      return NoneType();
    case 13:
      return ReadTensorType(in, TypeKind::kTensor, false);
    case 14:
      return ReadTensorType(in, TypeKind::kTensor, true);
    case 15:
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kTuple;
      return ReadTypeList(in, &t->members) ? t : nullptr;
    case 18:
      t = arena_.New<SourceType>();
      t->kind = TypeKind::kUnrankedTensor;
      t->inner = ReadType(in);
      return t;
    default:
      if (code >= kBuiltinFloatsFrom && code - kBuiltinFloatsFrom < std::size(kBuiltinFloats)) {
        return ScalarType(kBuiltinFloats[code - kBuiltinFloatsFrom]);
      }
      in.Fail(absl::StrCat("unknown builtin type code ", code));
      return nullptr;
  }
}

const SourceType* BytecodeEntries::DecodeType(const BytecodeContainer::Entry& entry, absl::Status* status) {
  if (!entry.binary) {
    // Types without a binary code come as their assembly text: the small floats, and types of unknown dialects.
    absl::string_view text = entry.bytes;
    if (absl::EndsWith(text, absl::string_view("\0", 1))) text.remove_suffix(1);
    ElementKind kind;
    if (entry.dialect == "builtin" && ElementFromName(text, &kind)) return ScalarType(kind);
    SourceType* t = arena_.New<SourceType>();
    t->kind = TypeKind::kOpaque;
    t->text = text;
    return t;
  }
  ByteReader in(entry.bytes, entry.origin, "section 2 (types)");
  uint64_t code = in.Varint();
  const SourceType* t = nullptr;
  if (in.ok()) {
    if (entry.dialect == "vhlo") {
      t = DecodeVhloType(in, code);
    } else if (entry.dialect == "builtin") {
      t = DecodeBuiltinType(in, code);
    } else if (entry.dialect == "stablehlo" && code == 0) {
      t = TokenType();
    } else if (entry.dialect == "stablehlo" && code == 1) {
      t = DecodeVhloType(in, 42);
    } else {
      in.Fail(absl::StrCat("unknown type code ", code, " of dialect ", entry.dialect));
    }
  }
  if (in.ok() && !in.AtEnd()) in.Fail(absl::StrCat(in.Left(), " bytes left over in a type"));
  // Scalars and the like are shared constants of weight one; all else was made here.
  if (in.ok() && t && (t->inner || !t->members.empty() || !t->results.empty() || t->quantization) &&
      !WeighType(const_cast<SourceType*>(t))) {
    in.Fail("type is too large when written out");
  }
  *status = in.status();
  return in.ok() ? t : nullptr;
}

absl::StatusOr<const SourceType*> BytecodeEntries::Type(uint64_t index) {
  if (index >= types_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("portable artifact: type ", index, " of ", types_.size()));
  }
  Slot<const SourceType*>& slot = types_[index];
  if (slot.state == kDone) return slot.value;
  if (slot.state == kBusy) {
    return absl::InvalidArgumentError(absl::StrCat("portable artifact: type ", index, " refers to itself"));
  }
  if (depth_ >= kMaxTypeDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("portable artifact: type ", index, " is nested deeper than ", depth_));
  }
  slot.state = kBusy;
  ++depth_;
  absl::Status status;
  const SourceType* t = DecodeType(container_.types[index], &status);
  --depth_;
  types_[index].state = t ? kDone : kNew;
  types_[index].value = t;
  if (!t) return status;
  return t;
}

const SourceType* BytecodeEntries::ReadType(ByteReader& in) {
  uint64_t index = in.Varint();
  if (!in.ok()) return nullptr;
  absl::StatusOr<const SourceType*> t = Type(index);
  if (!t.ok()) {
    in.Adopt(t.status());
    return nullptr;
  }
  return *t;
}

}  // namespace backplane::stablehlo
