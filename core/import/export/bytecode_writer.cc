#include "core/import/export/bytecode_writer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/import/export/bytecode_tables.h"
#include "core/import/import.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/source_build.h"
#include "core/ops/op_info.h"
#include "core/types/status_macros.h"

namespace backplane::stablehlo {
namespace {

constexpr uint8_t kIrSection = 4;

struct ScalarRow {
  ElementKind kind;
  uint8_t code;
  uint16_t since;
};
constexpr ScalarRow kScalars[] = {
    {ElementKind::kBool, 0, 9},         {ElementKind::kBF16, 2, 9},         {ElementKind::kF16, 3, 9},
    {ElementKind::kF32, 4, 9},          {ElementKind::kF64, 5, 9},          {ElementKind::kF8E4M3FN, 6, 9},
    {ElementKind::kF8E5M2, 7, 9},       {ElementKind::kIndex, 9, 9},        {ElementKind::kI4, 10, 9},
    {ElementKind::kI8, 11, 9},          {ElementKind::kI16, 12, 9},         {ElementKind::kI32, 13, 9},
    {ElementKind::kI64, 14, 9},         {ElementKind::kU4, 15, 9},          {ElementKind::kU8, 16, 9},
    {ElementKind::kU16, 17, 9},         {ElementKind::kU32, 18, 9},         {ElementKind::kU64, 19, 9},
    {ElementKind::kF8E4M3FNUZ, 27, 10}, {ElementKind::kF8E5M2FNUZ, 28, 10}, {ElementKind::kF8E4M3B11FNUZ, 29, 11},
    {ElementKind::kI2, 31, 1002},       {ElementKind::kU2, 32, 1002},       {ElementKind::kTF32, 34, 1006},
    {ElementKind::kF8E4M3, 35, 1007},   {ElementKind::kF8E3M4, 36, 1007},   {ElementKind::kF4E2M1FN, 37, 1008},
    {ElementKind::kF6E2M3FN, 38, 1008}, {ElementKind::kF6E3M2FN, 39, 1008}, {ElementKind::kF8E8M0FNU, 40, 1008},
};

// Enumerated attributes by name: VHLO's code and the numbering of the cases.
struct EnumRow {
  const char* name;
  uint8_t code;
  EnumKind kind;
};
constexpr EnumRow kEnums[] = {{"comparison_direction", 3, EnumKind::kComparisonDirection},
                              {"compare_type", 4, EnumKind::kComparisonType},
                              {"api_version", 5, EnumKind::kCustomCallApi},
                              {"fft_type", 7, EnumKind::kFft},
                              {"precision_config", 11, EnumKind::kPrecision},
                              {"rng_algorithm", 12, EnumKind::kRngAlgorithm},
                              {"rng_distribution", 13, EnumKind::kRngDistribution},
                              {"transpose_a", 16, EnumKind::kTranspose},
                              {"mode", 19, EnumKind::kAccuracyMode}};

int BytecodeVersion(int version) {
  return version < 10 ? 0 : version < 12 ? 1 : version < 14 ? 3 : version < 15 ? 4 : 6;
}

class Writer {
 public:
  Writer(const SourceModule& module, const StablehloVersion& target)
      : module_(module),
        version_(target.major * 1000 + target.minor),
        name_(absl::StrCat(target.major, ".", target.minor, ".", target.patch)),
        bytecode_(BytecodeVersion(version_)),
        numbers_(module.value_count, -1),
        levels_(module.value_count, 0) {}

  absl::StatusOr<std::string> Run() {
    unknown_location_ = tables_.Attr(Tables::kBuiltin, Payload().Varint(15));
    Payload ir;
    ir.VarintWithFlag(1, false);
    RETURN_IF_ERROR(ModuleOp(&ir));
    return tables_.Finish(bytecode_, absl::StrCat("StableHLO_v", name_), ir);
  }

 private:
  absl::Status VersionTooOldError(absl::string_view what) const {
    return absl::UnimplementedError(absl::StrCat("stablehlo export: ", what, " has no form in version ", name_));
  }

  // ---- attributes of builtin.module, which are MLIR's own ----

  int BuiltinString(absl::string_view text) {
    return tables_.Attr(Tables::kBuiltin, Payload().Varint(2).Varint(static_cast<uint64_t>(tables_.String(text))));
  }

  absl::StatusOr<int> BuiltinAttr(const SourceAttr* a) {
    switch (a->kind) {
      case AttrKind::kString:
        return BuiltinString(a->text);
      case AttrKind::kUnit:
        return tables_.Attr(Tables::kBuiltin, Payload().Varint(7));
      case AttrKind::kBool:
        return tables_.Attr(Tables::kBuiltin,
                            Payload().Varint(8).Type(BuiltinInteger(1)).Byte(static_cast<uint8_t>(a->integer)));
      case AttrKind::kInteger: {
        const int width = ElementBits(a->type->element);
        Payload p;
        p.Varint(8).Type(BuiltinInteger(width));
        AppendInteger(static_cast<uint64_t>(a->integer), width, &p);
        return tables_.Attr(Tables::kBuiltin, p);
      }
      case AttrKind::kDict: {
        std::vector<std::pair<int, int>> entries;
        for (const SourceNamedAttr& e : a->entries) {
          ASSIGN_OR_RETURN(int value, BuiltinAttr(e.value));
          entries.emplace_back(BuiltinString(e.name), value);
        }
        return Dictionary(entries);
      }
      default:
        return absl::UnimplementedError("stablehlo export: a module attribute has no binary form");
    }
  }

  int BuiltinInteger(int width) {
    return tables_.Type(Tables::kBuiltin, Payload().Varint(0).Varint(static_cast<uint64_t>(width) << 2));
  }

  int Dictionary(const std::vector<std::pair<int, int>>& entries) {
    Payload p;
    p.Varint(1).Varint(entries.size());
    for (const auto& [key, value] : entries) p.Attr(key).Attr(value);
    return tables_.Attr(Tables::kBuiltin, p);
  }

  static void AppendInteger(uint64_t value, int width, Payload* p) {
    if (width < 64) value &= (uint64_t{1} << width) - 1;
    if (width <= 8) {
      p->Byte(static_cast<uint8_t>(value));
    } else {
      p->Signed(static_cast<int64_t>(value));
    }
  }

  // ---- types ----

  absl::StatusOr<int> Type(const SourceType* t) {
    Payload p;
    auto list = [&](absl::Span<const SourceType* const> types) -> absl::Status {
      p.Varint(types.size());
      for (const SourceType* m : types) {
        ASSIGN_OR_RETURN(int id, Type(m));
        p.Type(id);
      }
      return absl::OkStatus();
    };
    switch (t->kind) {
      case TypeKind::kScalar: {
        for (const ScalarRow& row : kScalars) {
          if (row.kind != t->element) continue;
          if (version_ < row.since) return VersionTooOldError(absl::StrCat("type ", TypeToString(t)));
          return tables_.Type(Tables::kVhlo, p.Varint(row.code));
        }
        return absl::InternalError(absl::StrCat("scalar type ", TypeToString(t)));
      }
      case TypeKind::kComplex: {
        ASSIGN_OR_RETURN(int part, Type(t->inner));
        return tables_.Type(Tables::kVhlo, p.Varint(1).Type(part));
      }
      case TypeKind::kTensor: {
        if (t->encoding != nullptr) return absl::UnimplementedError("stablehlo export: a tensor type with an encoding");
        ASSIGN_OR_RETURN(int element, Type(t->inner));
        if (t->bounds.empty()) {
          p.Varint(20);
        } else {
          Payload bounds;
          bounds.Varint(18).Varint(t->bounds.size());
          for (int64_t b : t->bounds) bounds.Signed(b);
          p.Varint(21).Attr(tables_.Attr(Tables::kVhlo, bounds));
        }
        p.Varint(t->dims.size());
        for (int64_t d : t->dims) p.Signed(d);
        return tables_.Type(Tables::kVhlo, p.Type(element));
      }
      case TypeKind::kUnrankedTensor: {
        ASSIGN_OR_RETURN(int element, Type(t->inner));
        return tables_.Type(Tables::kVhlo, p.Varint(25).Type(element));
      }
      case TypeKind::kTuple:
        p.Varint(23);
        RETURN_IF_ERROR(list(t->members));
        return tables_.Type(Tables::kVhlo, p);
      case TypeKind::kFunction:
        p.Varint(8);
        RETURN_IF_ERROR(list(t->members));
        RETURN_IF_ERROR(list(t->results));
        return tables_.Type(Tables::kVhlo, p);
      case TypeKind::kToken:
        return tables_.Type(Tables::kVhlo, p.Varint(22));
      case TypeKind::kNone:
        if (version_ < 1006) return VersionTooOldError("type none");
        return tables_.Type(Tables::kVhlo, p.Varint(33));
      case TypeKind::kQuantized: {
        const SourceQuantization& q = *t->quantization;
        ASSIGN_OR_RETURN(int storage, Type(q.storage));
        ASSIGN_OR_RETURN(int expressed, Type(q.expressed));
        auto bits = [](double v) {
          int64_t b;
          std::memcpy(&b, &v, 8);
          return b;
        };
        p.Varint(q.axis >= 0 ? 30 : 24).Varint(q.storage_signed ? 1 : 0).Type(storage).Type(expressed);
        if (q.axis < 0) {
          p.Signed(bits(q.scales[0])).Signed(q.zero_points[0]).Signed(q.storage_min).Signed(q.storage_max);
          return tables_.Type(Tables::kVhlo, p);
        }
        if (version_ < 18) return VersionTooOldError("quantization per axis");
        p.Varint(static_cast<uint64_t>(q.axis)).Signed(q.storage_min).Signed(q.storage_max).Varint(q.scales.size());
        for (double s : q.scales) p.Signed(bits(s));
        p.Varint(q.zero_points.size());
        for (int64_t z : q.zero_points) p.Signed(z);
        return tables_.Type(Tables::kVhlo, p);
      }
      default:
        return absl::UnimplementedError(
            absl::StrCat("stablehlo export: type ", TypeToString(t), " has no binary form"));
    }
  }

  // ---- VHLO attributes ----

  int VhloString(absl::string_view text) {
    return tables_.Attr(Tables::kVhlo, Payload().Varint(14).Varint(static_cast<uint64_t>(tables_.String(text))));
  }

  absl::StatusOr<int> Dense(const SourceAttr* a) {
    ASSIGN_OR_RETURN(int type, Type(a->type));
    const SourceType* element = a->type->inner;
    const size_t step = static_cast<size_t>(ConstantElementBytes(element));
    absl::string_view bytes = a->text;
    // Equal elements are written once.
    bool same = step > 0 && bytes.size() >= step;
    for (size_t i = step; same && i < bytes.size(); i += step) same = std::memcmp(&bytes[i], bytes.data(), step) == 0;
    if (same) bytes = bytes.substr(0, step);
    std::string packed;
    if (element->kind == TypeKind::kScalar && element->element == ElementKind::kBool && !bytes.empty()) {
      if (same) {
        packed.push_back(bytes[0] ? '\xFF' : '\0');
      } else {
        packed.resize((bytes.size() + 7) / 8);
        for (size_t i = 0; i < bytes.size(); ++i) {
          if (bytes[i]) packed[i / 8] = static_cast<char>(packed[i / 8] | 1 << (i % 8));
        }
      }
      bytes = packed;
    }
    Payload p;
    p.Varint(15).Type(type).Varint(bytes.size()).Raw(bytes);
    return tables_.Attr(Tables::kVhlo, p);
  }

  absl::StatusOr<int> Attr(absl::string_view name, const SourceAttr* a) {
    Payload p;
    switch (a->kind) {
      case AttrKind::kBool:
        return tables_.Attr(Tables::kVhlo, p.Varint(2).Varint(static_cast<uint64_t>(a->integer != 0)));
      case AttrKind::kInteger: {
        ASSIGN_OR_RETURN(int type, Type(a->type));
        p.Varint(9).Type(type);
        AppendInteger(static_cast<uint64_t>(a->integer), ElementBits(a->type->element), &p);
        return tables_.Attr(Tables::kVhlo, p);
      }
      case AttrKind::kFloat: {
        ASSIGN_OR_RETURN(int type, Type(a->type));
        p.Varint(8).Type(type);
        AppendInteger(a->bits, ElementBits(a->type->element), &p);
        return tables_.Attr(Tables::kVhlo, p);
      }
      case AttrKind::kString:
        return VhloString(a->text);
      case AttrKind::kEnum: {
        for (const EnumRow& row : kEnums) {
          if (name != row.name) continue;
          for (uint64_t v = 0; v < 8; ++v) {
            if (EnumName(row.kind, v) == a->text) return tables_.Attr(Tables::kVhlo, p.Varint(row.code).Varint(v));
          }
        }
        return absl::InternalError(absl::StrCat("enumeration ", name, " ", a->text));
      }
      case AttrKind::kArray: {
        p.Varint(1).Varint(a->elements.size());
        for (const SourceAttr* e : a->elements) {
          ASSIGN_OR_RETURN(int id, Attr(name, e));
          p.Attr(id);
        }
        return tables_.Attr(Tables::kVhlo, p);
      }
      case AttrKind::kDict:
        return DictAttr(name, a);
      case AttrKind::kType: {
        ASSIGN_OR_RETURN(int type, Type(a->type));
        return tables_.Attr(Tables::kVhlo, p.Varint(17).Type(type));
      }
      case AttrKind::kDense:
        return Dense(a);
      case AttrKind::kShardy:
        return absl::UnimplementedError(absl::StrCat("stablehlo export: ", a->text, ": an artifact cannot hold sdy"));
      default:
        return absl::UnimplementedError(
            absl::StrCat("stablehlo export: attribute ", name, " has no form in version ", name_));
    }
  }

  absl::StatusOr<int> DictAttr(absl::string_view name, const SourceAttr* a) {
    Payload p;
    auto list = [&](const SourceAttr* dense) -> absl::Status {
      ASSIGN_OR_RETURN(std::vector<int64_t> values, ReadDenseIntegers(dense));
      p.Varint(values.size());
      for (int64_t v : values) p.Signed(v);
      return absl::OkStatus();
    };
    if (name == "output_operand_aliases") {
      p.Varint(10);
      RETURN_IF_ERROR(list(a->Find("output_tuple_indices")));
      p.Signed(a->Find("operand_index")->integer);
      RETURN_IF_ERROR(list(a->Find("operand_tuple_indices")));
      return tables_.Attr(Tables::kVhlo, p);
    }
    if (name == "result_accuracy") {
      ASSIGN_OR_RETURN(int mode, Attr("mode", a->Find("mode")));
      p.Varint(20)
          .Signed(static_cast<int64_t>(a->Find("atol")->bits))
          .Signed(static_cast<int64_t>(a->Find("rtol")->bits));
      return tables_.Attr(Tables::kVhlo, p.Signed(a->Find("ulps")->integer).Attr(mode));
    }
    if (name == "replica_groups") return VersionTooOldError("a list of replica groups by mesh axes");
    p.Varint(6).Varint(a->entries.size());
    for (const SourceNamedAttr& e : a->entries) {
      ASSIGN_OR_RETURN(int value, Attr(e.name, e.value));
      p.Attr(VhloString(e.name)).Attr(value);
    }
    return tables_.Attr(Tables::kVhlo, p);
  }

  int Location(LocationId id) {
    if (id == 0) return unknown_location_;
    auto [it, fresh] = locations_.emplace(id, unknown_location_);
    if (!fresh) return it->second;
    const SourceLocation at = module_.Location(id);
    int made = unknown_location_;
    if (!at.file.empty()) {
      made = tables_.Attr(Tables::kBuiltin, Payload()
                                                .Varint(11)
                                                .Attr(BuiltinString(at.file))
                                                .Varint(static_cast<uint64_t>(std::max<int64_t>(at.line, 0)))
                                                .Varint(static_cast<uint64_t>(std::max<int64_t>(at.column, 0))));
    }
    if (!at.name.empty()) {
      made = tables_.Attr(Tables::kBuiltin, Payload().Varint(14).Attr(BuiltinString(at.name)).Attr(made));
    }
    return it->second = made;
  }

  // ---- operations ----

  absl::Status ModuleOp(Payload* out) {
    std::vector<std::pair<int, int>> entries;
    const bool properties = bytecode_ >= 5;
    for (const SourceNamedAttr& a : module_.attributes) {
      ASSIGN_OR_RETURN(int value, BuiltinAttr(a.value));
      entries.emplace_back(BuiltinString(a.name), value);
    }
    if (!properties && !module_.name.empty()) {
      entries.emplace_back(BuiltinString("sym_name"), BuiltinString(module_.name));
      // Keys are sorted: the module's attributes are already, and sym_name is inserted in order.
      auto position = std::find_if(module_.attributes.begin(), module_.attributes.end(),
                                   [](const SourceNamedAttr& a) { return a.name > "sym_name"; });
      std::rotate(entries.begin() + (position - module_.attributes.begin()), entries.end() - 1, entries.end());
    }
    out->OpName(tables_.OpName(Tables::kBuiltin, "module"));
    out->Byte(static_cast<uint8_t>((entries.empty() ? 0 : 0x01) | (properties ? 0x40 : 0) | 0x10));
    out->Attr(Location(module_.location));
    if (!entries.empty()) out->Attr(Dictionary(entries));
    if (properties) {
      Payload p;
      if (module_.name.empty()) {
        p.Varint(0);
      } else {
        p.PresentAttr(BuiltinString(module_.name));
      }
      out->Varint(static_cast<uint64_t>(tables_.AddProperties(p.Varint(0))));
    }
    out->VarintWithFlag(1, true);
    Payload inner;
    Payload& body = bytecode_ >= 2 ? inner : *out;
    body.Varint(1).Varint(0).VarintWithFlag(module_.ops.size(), false);
    for (const SourceOp* op : module_.ops) RETURN_IF_ERROR(Op(*op, 0, 0, &body));
    if (bytecode_ >= 2) out->AddSection(kIrSection, std::move(inner));
    return absl::OkStatus();
  }

  absl::StatusOr<const OpForm*> FindForm(const SourceOp& op) {
    absl::string_view name = op.name;
    if (!absl::ConsumePrefix(&name, "stablehlo.") && !absl::ConsumePrefix(&name, "func.")) {
      return absl::UnimplementedError(absl::StrCat("stablehlo export: ", op.name, " has no form in an artifact"));
    }
    for (const OpForm& f : AllVhloForms()) {
      if (name == f.name && f.since <= version_ && (f.until == 0 || version_ <= f.until)) return &f;
    }
    return VersionTooOldError(op.name);
  }

  // Whether the op means the same without the attribute.
  static bool IsDefaultAttribute(absl::string_view name, const SourceAttr* a) {
    if (name == "result_accuracy") return a->Find("mode")->text == "DEFAULT";
    if (a->kind == AttrKind::kType) return a->type->kind == TypeKind::kNone;
    if (a->kind == AttrKind::kBool) return a->integer == 0;
    if (a->kind == AttrKind::kDense) return a->text.empty();
    if (a->kind == AttrKind::kArray) return a->elements.empty();
    return false;
  }

  // What newer versions allow in an op of the same form.
  absl::Status CheckVersionAllows(const SourceOp& op) {
    if (op.name == "stablehlo.custom_call" && version_ < 1003 && op.Find("backend_config")->kind == AttrKind::kDict) {
      return VersionTooOldError("stablehlo.custom_call with a dictionary");
    }
    absl::string_view name = op.name;
    absl::ConsumePrefix(&name, "stablehlo.");
    const OpInfo* info = FindByStablehlo(name);
    const bool reduces = info != nullptr && info->Has(kReduces);
    for (size_t i = 0; reduces && version_ < 17 && i < op.results.size(); ++i) {
      const SourceType *from = op.operands[i]->type->inner, *to = op.results[i].type->inner;
      if (from != nullptr && to != nullptr && !SameType(from, to)) {
        return VersionTooOldError(absl::StrCat(op.name, " that changes the element type"));
      }
    }
    return absl::OkStatus();
  }

  // `level`: nesting of the region the op stands in; `base`: values known there.
  absl::Status Op(const SourceOp& op, int level, int64_t base, Payload* out) {
    ASSIGN_OR_RETURN(const OpForm* form, FindForm(op));
    RETURN_IF_ERROR(CheckVersionAllows(op));
    if (!form->operands.Fits(op.operands.size()) || !form->results.Fits(op.results.size()) ||
        !form->regions.Fits(op.regions.size())) {
      return VersionTooOldError(absl::StrCat(op.name, " with ", op.operands.size(), " operands, ", op.results.size(),
                                             " results and ", op.regions.size(), " regions"));
    }
    const std::vector<absl::string_view> own = SplitNames(form->attributes);
    const OpForm* newest = FindNewestForm(op.name);
    const std::vector<absl::string_view> known = SplitNames(newest->attributes);
    auto has = [](const std::vector<absl::string_view>& list, absl::string_view name) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    Payload properties;
    std::vector<std::pair<absl::string_view, int>> entries;
    for (absl::string_view name : own) {
      const SourceAttr* a = op.Find(name);
      if (a == nullptr) return VersionTooOldError(absl::StrCat(op.name, " without ", name));
      ASSIGN_OR_RETURN(int id, Attr(name, a));
      if (bytecode_ >= 5) {
        properties.Attr(id);
      } else {
        entries.emplace_back(name, id);
      }
    }
    for (const SourceNamedAttr& a : op.attributes) {
      if (has(own, a.name)) continue;
      if (has(known, a.name)) {
        if (!IsDefaultAttribute(a.name, a.value)) return VersionTooOldError(absl::StrCat(op.name, " with ", a.name));
        continue;
      }
      ASSIGN_OR_RETURN(int id, Attr(a.name, a.value));
      entries.emplace_back(a.name, id);
    }
    std::sort(entries.begin(), entries.end());
    std::vector<std::pair<int, int>> dictionary;
    for (const auto& [name, id] : entries) dictionary.emplace_back(BuiltinString(name), id);

    out->OpName(tables_.OpName(Tables::kVhlo, absl::StrCat(form->name, "_v", form->version)));
    const bool has_properties = bytecode_ >= 5 && !own.empty();
    out->Byte(static_cast<uint8_t>((dictionary.empty() ? 0 : 0x01) | (op.results.empty() ? 0 : 0x02) |
                                   (op.operands.empty() ? 0 : 0x04) | (op.regions.empty() ? 0 : 0x10) |
                                   (has_properties ? 0x40 : 0)));
    out->Attr(Location(op.location));
    if (!dictionary.empty()) out->Attr(Dictionary(dictionary));
    if (has_properties) out->Varint(static_cast<uint64_t>(tables_.AddProperties(properties)));
    if (!op.results.empty()) {
      out->Varint(op.results.size());
      for (const SourceValue& v : op.results) {
        ASSIGN_OR_RETURN(int type, Type(v.type));
        out->Type(type);
      }
    }
    if (!op.operands.empty()) {
      out->Varint(op.operands.size());
      for (const SourceValue* v : op.operands) out->Varint(static_cast<uint64_t>(numbers_[v->id]));
    }
    if (op.regions.empty()) return absl::OkStatus();
    const bool isolated = !Captures(op, level);
    out->VarintWithFlag(op.regions.size(), isolated);
    Payload inner;
    Payload* body = isolated && bytecode_ >= 2 ? &inner : out;
    for (const SourceRegion& r : op.regions) RETURN_IF_ERROR(Region(r, level + 1, isolated ? 0 : base, body));
    if (body == &inner) out->AddSection(kIrSection, std::move(inner));
    return absl::OkStatus();
  }

  absl::Status Region(const SourceRegion& region, int level, int64_t base, Payload* out) {
    out->Varint(region.blocks.size());
    if (region.blocks.empty()) return absl::OkStatus();
    const SourceBlock& block = region.blocks[0];
    int64_t next = base;
    for (const SourceValue& a : block.arguments) {
      levels_[a.id] = level;
      numbers_[a.id] = next++;
    }
    for (const SourceOp* op : block.ops) {
      for (const SourceValue& v : op->results) {
        levels_[v.id] = level;
        numbers_[v.id] = next++;
      }
    }
    out->Varint(static_cast<uint64_t>(next - base));
    out->VarintWithFlag(block.ops.size(), !block.arguments.empty());
    if (!block.arguments.empty()) {
      out->Varint(block.arguments.size());
      for (const SourceValue& a : block.arguments) {
        ASSIGN_OR_RETURN(int type, Type(a.type));
        const int location = Location(a.location);
        if (bytecode_ >= 4) {
          out->TypeFlagged(type, location != unknown_location_);
          if (location != unknown_location_) out->Attr(location);
        } else {
          out->Type(type).Attr(location);
        }
      }
      if (bytecode_ >= 3) out->Byte(0);  // no order of uses
    }
    for (const SourceOp* op : block.ops) RETURN_IF_ERROR(Op(*op, level, next, out));
    return absl::OkStatus();
  }

  // Whether anything inside uses a value from outside. Values inside are not numbered yet: a value that is known in a
  // region at most as deep as the op's own is outside.
  bool Captures(const SourceOp& op, int level) {
    bool found = false;
    auto walk = [&](auto& self, const SourceOp& o, int depth) -> void {
      for (const SourceRegion& r : o.regions) {
        for (const SourceBlock& b : r.blocks) {
          for (const SourceValue& a : b.arguments) levels_[a.id] = depth + 1;
          for (const SourceOp* inner : b.ops) {
            for (const SourceValue& v : inner->results) levels_[v.id] = depth + 1;
            for (const SourceValue* v : inner->operands) found = found || levels_[v->id] <= level;
            if (!found) self(self, *inner, depth + 1);
          }
        }
      }
    };
    walk(walk, op, level);
    return found;
  }

  const SourceModule& module_;
  const int version_;
  const std::string name_;
  const int bytecode_;
  Tables tables_;
  std::vector<int64_t> numbers_;
  std::vector<int> levels_;
  absl::flat_hash_map<LocationId, int> locations_;
  int unknown_location_ = 0;
};

}  // namespace

absl::StatusOr<std::string> WritePortableArtifact(const SourceModule& module, const StablehloVersion& target) {
  const int64_t asked[] = {target.major, target.minor};
  auto before = [](const int64_t* a, const int64_t* b) { return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1]; };
  if (before(asked, kOldestStablehloVersion) || before(kNewestStablehloVersion, asked)) {
    return absl::InvalidArgumentError(absl::StrCat("stablehlo export: version ", target.major, ".", target.minor, ".",
                                                   target.patch, " is not one of 0.9.0 to 1.20.0"));
  }
  return Writer(module, target).Run();
}

}  // namespace backplane::stablehlo
