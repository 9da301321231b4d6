#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/bytecode_entries.h"
#include "core/import/stablehlo/source_build.h"

namespace backplane::stablehlo {

BytecodeEntries::BytecodeEntries(const BytecodeContainer* container, SourceArena* arena)
    : container_(*container),
      arena_(*arena),
      attributes_(container->attributes.size()),
      types_(container->types.size()) {}

absl::string_view BytecodeEntries::ReadString(ByteReader& in) {
  uint64_t index = in.Varint();
  if (in.ok() && index >= container_.strings.size()) {
    in.Fail(absl::StrCat("string ", index, " of ", container_.strings.size()));
  }
  return in.ok() ? container_.strings[index] : absl::string_view();
}

uint64_t BytecodeEntries::ReadBits(ByteReader& in, int width) {
  if (width <= 8) return in.Byte() & ((1u << width) - 1);
  uint64_t v = static_cast<uint64_t>(in.SignedVarint());
  return width >= 64 ? v : v & ((uint64_t{1} << width) - 1);
}

const SourceAttr* BytecodeEntries::ReadArray(ByteReader& in) {
  uint64_t n = in.Count("array elements");
  std::vector<const SourceAttr*> elements;
  for (uint64_t i = 0; i < n && in.ok(); ++i) elements.push_back(ReadAttribute(in));
  return in.ok() ? MakeArray(arena_, elements) : nullptr;
}

const SourceAttr* BytecodeEntries::ReadStringAttribute(ByteReader& in) {
  const SourceAttr* a = ReadAttribute(in);
  if (a && a->kind != AttrKind::kString) in.Fail("expected a string attribute");
  return in.ok() ? a : nullptr;
}

const SourceAttr* BytecodeEntries::ReadDictionary(ByteReader& in) {
  uint64_t n = in.Count("dictionary entries");
  std::vector<SourceNamedAttr> entries;
  for (uint64_t i = 0; i < n && in.ok(); ++i) {
    const SourceAttr* name = ReadStringAttribute(in);
    const SourceAttr* value = ReadAttribute(in);
    if (!in.ok()) return nullptr;
    entries.push_back({name->text, value});
  }
  absl::string_view repeated;
  if (in.ok() && !SortEntries(&entries, &repeated))
    in.Fail(absl::StrCat("dictionary key \"", repeated, "\" stands twice"));
  return in.ok() ? MakeDict(arena_, std::move(entries)) : nullptr;
}

const SourceAttr* BytecodeEntries::ReadEnum(ByteReader& in, int kind) {
  uint64_t value = in.Varint();
  absl::string_view name = EnumName(static_cast<EnumKind>(kind), value);
  if (in.ok() && name.empty()) in.Fail(absl::StrCat("unknown enumeration value ", value));
  return in.ok() ? MakeEnum(arena_, name) : nullptr;
}

const SourceAttr* BytecodeEntries::ReadI64s(ByteReader& in) {
  std::vector<int64_t> values = ReadI64Vector(in);
  return in.ok() ? MakeI64List(arena_, values) : nullptr;
}

const SourceAttr* BytecodeEntries::ReadDense(ByteReader& in) {
  const SourceType* type = ReadType(in);
  absl::string_view blob = in.Blob();
  if (!in.ok()) return nullptr;
  std::string why;
  const SourceAttr* a = NormalizeConstant(arena_, type, blob, true, &why);
  if (!a) in.Fail(why);
  return a;
}

const SourceAttr* NormalizeConstant(SourceArena& arena, const SourceType* type, absl::string_view blob,
                                    bool packed_bits, std::string* why) {
  int64_t n = 0;
  uint64_t step = type->kind == TypeKind::kTensor ? ConstantElementBytes(type->inner) : 0;
  if (step == 0 || !CountStaticElements(type->dims, &n)) {
    *why = absl::StrCat("constant of type ", TypeToString(type), ", expected a static tensor");
    return nullptr;
  }
  uint64_t count = static_cast<uint64_t>(n);
  bool is_bool = type->inner->kind == TypeKind::kScalar && type->inner->element == ElementKind::kBool;
  if (is_bool && packed_bits) {
    bool all_true = blob.size() == 1 && static_cast<uint8_t>(blob[0]) == 0xFF;
    bool all_false = blob.size() == 1 && blob[0] == 0 && n > 8;
    if (all_true || all_false) {
      if (n == 0) return MakeDense(arena, type, {}, false);
      static constexpr char kBits[2] = {0, 1};
      return MakeDense(arena, type, absl::string_view(&kBits[all_true], 1), n > 1);
    }
    if (blob.size() != count && count / 8 + (count % 8 != 0) == blob.size()) {
      char* bytes = arena.NewBytes(count);
      for (uint64_t i = 0; i < count; ++i) bytes[i] = (static_cast<uint8_t>(blob[i / 8]) >> (i % 8)) & 1;
      return MakeDense(arena, type, absl::string_view(bytes, count), false);
    }
  }
  uint64_t size = 0;
  bool fits = !__builtin_mul_overflow(count, step, &size);
  if (n == 0 && (blob.empty() || blob.size() == step)) return MakeDense(arena, type, {}, false);
  bool splat = blob.size() == step && count != 1;
  if (!splat && !(fits && blob.size() == size)) {
    *why = absl::StrCat("constant of type ", TypeToString(type), " with ", blob.size(), " bytes");
    return nullptr;
  }
  // Narrow values are masked to their width, i1 to 0 or 1.
  const SourceType* part = type->inner->kind == TypeKind::kComplex     ? type->inner->inner
                           : type->inner->kind == TypeKind::kQuantized ? type->inner->quantization->storage
                                                                       : type->inner;
  int bits = ElementBits(part->element);
  if (bits < 8) {
    uint8_t mask = static_cast<uint8_t>((1u << bits) - 1);
    if (std::any_of(blob.begin(), blob.end(), [mask](char c) { return static_cast<uint8_t>(c) & ~mask; })) {
      char* bytes = arena.NewBytes(blob.size());
      for (size_t i = 0; i < blob.size(); ++i) bytes[i] = is_bool ? blob[i] != 0 : blob[i] & mask;
      blob = absl::string_view(bytes, blob.size());
    }
  }
  return MakeDense(arena, type, blob, splat);
}

const SourceAttr* BytecodeEntries::DecodeBuiltinAttribute(ByteReader& in, uint64_t code) {
  switch (code) {
    case 0:
      return ReadArray(in);
    case 1:
      return ReadDictionary(in);
    case 2:
      return MakeString(arena_, ReadString(in));
    case 3: {
      absl::string_view s = ReadString(in);
      ReadType(in);
      return MakeString(arena_, s);
    }
    case 4:
      return ReadStringAttribute(in);
    case 5: {
      const SourceAttr* root = ReadStringAttribute(in);
      const SourceAttr* nested = ReadArray(in);
      if (!in.ok()) return nullptr;
      std::string path(root->text);
      for (const SourceAttr* part : nested->elements) absl::StrAppend(&path, "::@", part->text);
      return MakeString(arena_, arena_.CopyString(path));
    }
    case 6: {
      const SourceType* t = ReadType(in);
      return in.ok() ? MakeType(arena_, t) : nullptr;
    }
    case 7:
      return MakeUnit(arena_);
    case 8:
    case 9: {
      const SourceType* t = ReadType(in);
      if (!in.ok()) return nullptr;
      if (t->kind != TypeKind::kScalar || IsFloatElement(t->element) != (code == 9)) {
        in.Fail(absl::StrCat("number of type ", TypeToString(t)));
        return nullptr;
      }
      int width = ElementBits(t->element);
      uint64_t bits = ReadBits(in, width);
      if (code == 9) return MakeFloat(arena_, bits, t->element);
      if (t->element == ElementKind::kBool) return MakeBool(arena_, bits);
      if (!IsUnsignedElement(t->element) && width < 64) {
        bits = static_cast<uint64_t>(static_cast<int64_t>(bits << (64 - width)) >> (64 - width));
      }
      return MakeInteger(arena_, static_cast<int64_t>(bits), t->element);
    }
    case 17: {
      const SourceType* element = ReadType(in);
      uint64_t n = in.Varint();
      absl::string_view blob = in.Blob();
      if (!in.ok()) return nullptr;
      if (n > blob.size()) {
        in.Fail(absl::StrCat("array of ", n, " elements with ", blob.size(), " bytes"));
        return nullptr;
      }
      std::string why;
      const SourceType* type = MakeTensorType(arena_, {static_cast<int64_t>(n)}, element);
      const SourceAttr* a = NormalizeConstant(arena_, type, blob, false, &why);
      if (!a) in.Fail(why);
      return a;
    }
    case 18:
      return ReadDense(in);
    default:
      in.Fail(absl::StrCat("unknown builtin attribute code ", code));
      return nullptr;
  }
}

const SourceAttr* BytecodeEntries::DecodeVhloMeshAttribute(ByteReader& in, uint64_t code) {
  std::vector<SourceNamedAttr> entries;
  switch (code) {
    case 21: {
      int64_t pre_size = in.SignedVarint(), size = in.SignedVarint();
      entries = {{"pre_size", MakeInteger(arena_, pre_size)}, {"size", MakeInteger(arena_, size)}};
      break;
    }
    case 22: {
      entries.push_back({"name", ReadStringAttribute(in)});
      uint64_t has_sub = in.Varint();
      if (has_sub > 1) in.Fail(absl::StrCat("flag of value ", has_sub));
      if (in.ok() && has_sub) entries.push_back({"sub_axis_info", ReadAttribute(in)});
      break;
    }
    case 23: {
      const SourceAttr* mesh = ReadAttribute(in);
      const SourceAttr* axes = ReadAttribute(in);
      entries = {{"axes", axes}, {"mesh", mesh}};
      break;
    }
    case 24: {
      const SourceAttr* name = ReadStringAttribute(in);
      entries = {{"name", name}, {"size", MakeInteger(arena_, in.SignedVarint())}};
      break;
    }
    default: {
      entries.push_back({"axes", ReadAttribute(in)});
      const SourceAttr* ids = ReadOptionalAttribute(in);
      if (ids) entries.push_back({"device_ids", ids});
    }
  }
  return in.ok() ? MakeDict(arena_, std::move(entries)) : nullptr;
}

const SourceAttr* BytecodeEntries::DecodeVhloAttribute(ByteReader& in, uint64_t code) {
  auto enumeration = [&](EnumKind kind) { return ReadEnum(in, static_cast<int>(kind)); };
  switch (code) {
    case 1:
      return ReadArray(in);
    case 2: {
      uint64_t v = in.Varint();
      if (v > 1) in.Fail(absl::StrCat("bool of value ", v));
      return in.ok() ? MakeBool(arena_, v) : nullptr;
    }
    case 3:
      return enumeration(EnumKind::kComparisonDirection);
    case 4:
      return enumeration(EnumKind::kComparisonType);
    case 5:
      return enumeration(EnumKind::kCustomCallApi);
    case 6:
      return ReadDictionary(in);
    case 7:
      return enumeration(EnumKind::kFft);
    case 8:
      return DecodeBuiltinAttribute(in, 9);
    case 9:
      return DecodeBuiltinAttribute(in, 8);
    case 10: {
      const SourceAttr* outputs = ReadI64s(in);
      int64_t operand = in.SignedVarint();
      const SourceAttr* operands = ReadI64s(in);
      if (!in.ok()) return nullptr;
      return MakeDict(arena_, {{"operand_index", MakeInteger(arena_, operand)},
                               {"operand_tuple_indices", operands},
                               {"output_tuple_indices", outputs}});
    }
    case 11:
      return enumeration(EnumKind::kPrecision);
    case 12:
      return enumeration(EnumKind::kRngAlgorithm);
    case 13:
      return enumeration(EnumKind::kRngDistribution);
    case 14:
      return MakeString(arena_, ReadString(in));
    case 15:
      return ReadDense(in);
    case 16:
      return enumeration(EnumKind::kTranspose);
    case 17:
      return DecodeBuiltinAttribute(in, 6);
    case 18:
      return ReadI64s(in);
    case 19:
      return enumeration(EnumKind::kAccuracyMode);
    case 20: {
      uint64_t atol = ReadBits(in, 64), rtol = ReadBits(in, 64);
      int64_t ulps = in.SignedVarint();
      const SourceAttr* mode = ReadAttribute(in);
      if (in.ok() && mode->kind != AttrKind::kEnum) in.Fail("accuracy mode is no enumeration");
      if (!in.ok()) return nullptr;
      return MakeDict(arena_, {{"atol", MakeFloat(arena_, atol, ElementKind::kF64)},
                               {"mode", mode},
                               {"rtol", MakeFloat(arena_, rtol, ElementKind::kF64)},
                               {"ulps", MakeInteger(arena_, ulps)}});
    }
    case 21:
    case 22:
    case 23:
    case 24:
    case 25:
      return DecodeVhloMeshAttribute(in, code);
    default:
      in.Fail(absl::StrCat("unknown vhlo attribute code ", code));
      return nullptr;
  }
}

const SourceAttr* BytecodeEntries::DecodeAttribute(const BytecodeContainer::Entry& entry, absl::Status* status,
                                                   int* code_out) {
  auto opaque = [&](absl::string_view text) {
    SourceAttr* a = arena_.New<SourceAttr>();
    a->kind = AttrKind::kOpaque;
    a->text = text;
    return a;
  };
  if (!entry.binary) {
    absl::string_view text = entry.bytes;
    if (absl::EndsWith(text, absl::string_view("\0", 1))) text.remove_suffix(1);
    return absl::StartsWith(text, "#sdy") ? MakeShardy(arena_, text) : opaque(text);
  }
  ByteReader in(entry.bytes, entry.origin, "section 2 (attributes)");
  uint64_t code = in.Varint();
  const SourceAttr* a = nullptr;
  if (in.ok()) {
    *code_out = static_cast<int>(std::min<uint64_t>(code, 1000));
    if (entry.dialect == "vhlo") {
      a = DecodeVhloAttribute(in, code);
    } else if (entry.dialect == "builtin") {
      // Locations and forms that no reader needs are not decoded: they are opaque attributes.
      if ((code >= 10 && code <= 16) || (code >= 19 && code <= 22)) {
        return opaque(arena_.CopyString(absl::StrCat("#builtin.attribute_", code)));
      }
      a = DecodeBuiltinAttribute(in, code);
    } else if (entry.dialect == "sdy") {
      a = DecodeShardyAttribute(in, code);
    } else if (entry.dialect == "stablehlo" && code == 13) {
      a = ReadI64s(in);
    } else {
      return opaque(arena_.CopyString(absl::StrCat("#", entry.dialect, ".attribute_", code)));
    }
  }
  if (in.ok() && !in.AtEnd()) in.Fail(absl::StrCat(in.Left(), " bytes left over in an attribute"));
  if (in.ok() && a && !WeighAttribute(const_cast<SourceAttr*>(a))) in.Fail("attribute is too large when written out");
  *status = in.status();
  return in.ok() ? a : nullptr;
}

absl::StatusOr<const SourceAttr*> BytecodeEntries::Attribute(uint64_t index) {
  if (index >= attributes_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("portable artifact: attribute ", index, " of ", attributes_.size()));
  }
  Slot<const SourceAttr*>& slot = attributes_[index];
  if (slot.state == kDone) return slot.value;
  if (slot.state == kBusy) {
    return absl::InvalidArgumentError(absl::StrCat("portable artifact: attribute ", index, " refers to itself"));
  }
  if (depth_ >= kMaxAttributeDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("portable artifact: attribute ", index, " is nested deeper than ", depth_));
  }
  slot.state = kBusy;
  ++depth_;
  absl::Status status;
  int code = -1;
  const SourceAttr* a = DecodeAttribute(container_.attributes[index], &status, &code);
  --depth_;
  slot.state = a ? kDone : kNew;
  slot.value = a;
  slot.code = code;
  if (!a) return status;
  return a;
}

const SourceAttr* BytecodeEntries::ReadAttribute(ByteReader& in) {
  uint64_t index = in.Varint();
  if (!in.ok()) return nullptr;
  absl::StatusOr<const SourceAttr*> a = Attribute(index);
  if (!a.ok()) {
    in.Adopt(a.status());
    return nullptr;
  }
  return *a;
}

const SourceAttr* BytecodeEntries::ReadOptionalAttribute(ByteReader& in) {
  bool present = false;
  uint64_t index = in.VarintFlag(&present);
  if (!in.ok() || !present) return nullptr;
  absl::StatusOr<const SourceAttr*> a = Attribute(index);
  if (!a.ok()) {
    in.Adopt(a.status());
    return nullptr;
  }
  return *a;
}

}  // namespace backplane::stablehlo
