#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/import/export/stablehlo_printer.h"
#include "core/import/stablehlo/hlo_structures.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/source_build.h"
#include "core/types/numeric.h"

namespace backplane::stablehlo {
namespace {

bool IsBareWord(absl::string_view s, absl::string_view more) {
  if (s.empty() || !(absl::ascii_isalpha(s[0]) || s[0] == '_')) return false;
  return std::all_of(s.begin(), s.end(), [&](char c) { return absl::ascii_isalnum(c) || absl::StrContains(more, c); });
}

// MLIR takes a decimal point for what makes a float.
template <typename Float>
std::string PrintFloat(Float v) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  const size_t e = text.find('e');
  if (text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

uint64_t LoadBits(absl::string_view bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), std::min<size_t>(bytes.size(), 8));
  return bits;
}

void AppendDenseElement(absl::string_view bytes, const SourceType* type, std::string* out) {
  if (type->kind == TypeKind::kComplex) {
    const size_t half = bytes.size() / 2;
    *out += '(';
    AppendMlirNumber(LoadBits(bytes.substr(0, half)), type->inner, out);
    *out += ',';
    AppendMlirNumber(LoadBits(bytes.substr(half)), type->inner, out);
    *out += ')';
    return;
  }
  AppendMlirNumber(LoadBits(bytes), type, out);
}

void AppendDense(const SourceAttr* a, std::string* out) {
  const SourceType* element = a->type->inner;
  if (element->kind == TypeKind::kQuantized) element = element->quantization->storage;
  const size_t step = static_cast<size_t>(ConstantElementBytes(element));
  *out += "dense<";
  const bool plain = element->kind == TypeKind::kScalar && ElementBits(element->element) >= 8;
  if (a->splat) {
    AppendDenseElement(a->text.substr(0, step), element, out);
  } else if (plain && a->text.size() / step > 64) {
    absl::StrAppend(out, "\"0x", absl::AsciiStrToUpper(absl::BytesToHexString(a->text)), "\"");
  } else if (!a->text.empty()) {
    size_t at = 0;
    auto list = [&](auto& self, size_t level) -> void {
      if (level == a->type->dims.size()) {
        AppendDenseElement(a->text.substr(at, step), element, out);
        at += step;
        return;
      }
      *out += '[';
      for (int64_t i = 0; i < a->type->dims[level]; ++i) {
        if (i) *out += ", ";
        self(self, level + 1);
      }
      *out += ']';
    };
    list(list, 0);
  }
  absl::StrAppend(out, "> : ", TypeToString(a->type));
}

bool IsRow(const SourceAttr* a) { return a->kind == AttrKind::kDense && a->type->dims.size() == 1; }
bool IsEmpty(const SourceAttr* a) {
  return (a->kind == AttrKind::kDense && a->text.empty()) || (a->kind == AttrKind::kArray && a->elements.empty()) ||
         (a->kind == AttrKind::kString && a->text.empty());
}
bool IsNone(const SourceAttr* a) { return a->kind == AttrKind::kType && a->type->kind == TypeKind::kNone; }

// How an enumeration is spelled: #stablehlo<mnemonic CASE>.
const char* Mnemonic(absl::string_view attribute) {
  if (attribute == "compare_type") return "comparison_type";
  if (attribute == "transpose_a") return "transpose";
  return nullptr;
}

// Attributes whose fields our tree holds one by one.
struct Structure {
  const char* op;
  const char* attribute;
  const char* mnemonic;
  AttrId fields;
};
constexpr Structure kStructures[] = {
    {"gather", "dimension_numbers", "gather", AttrId::kGatherDims},
    {"scatter", "scatter_dimension_numbers", "scatter", AttrId::kScatterDims},
    {"dot_general", "dot_dimension_numbers", "dot", AttrId::kDotDims},
};

constexpr const char* kAlgorithmFields[] = {
    "lhs_precision_type",  "rhs_precision_type",       "accumulation_type",           "lhs_component_count",
    "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation"};

std::string ConvolutionSide(const SourceOp& op, const char* first, char a, const char* second, char b,
                            const char* spatial) {
  std::vector<int64_t> positions = *ReadDenseIntegers(op.Find(spatial));
  std::vector<std::string> out(positions.size() + 2, "?");
  auto put = [&](int64_t at, std::string text) {
    if (at >= 0 && at < static_cast<int64_t>(out.size())) out[at] = std::move(text);
  };
  put(op.Find(first)->integer, std::string(1, a));
  put(op.Find(second)->integer, std::string(1, b));
  for (size_t i = 0; i < positions.size(); ++i) put(positions[i], absl::StrCat(i));
  return absl::StrCat("[", absl::StrJoin(out, ", "), "]");
}

// Prints the value of an inherent attribute that is printed alone; false when it has no text.
bool AppendInherent(absl::string_view op, absl::string_view name, const SourceAttr* value, std::string* out) {
  if (value->kind == AttrKind::kEnum) {
    if (name == "api_version") {
      for (uint64_t n = 0; n < 8; ++n) {
        if (EnumName(EnumKind::kCustomCallApi, n) != value->text) continue;
        absl::StrAppend(out, n, " : i32");
        return true;
      }
      return false;
    }
    const char* mnemonic = Mnemonic(name);
    absl::StrAppend(out, "#stablehlo<", mnemonic ? absl::string_view(mnemonic) : name, " ", value->text, ">");
    return true;
  }
  if (name == "callee" || name == "decomposition") {
    *out += MlirSymbol(value->text);
    return true;
  }
  if (name == "called_computations") {
    absl::StrAppend(
        out, "[",
        absl::StrJoin(value->elements, ", ", [](std::string* s, const SourceAttr* e) { *s += MlirSymbol(e->text); }),
        "]");
    return true;
  }
  if (name == "precision_config") {
    absl::StrAppend(out, "[",
                    absl::StrJoin(value->elements, ", ",
                                  [](std::string* s, const SourceAttr* e) {
                                    absl::StrAppend(s, "#stablehlo<precision ", e->text, ">");
                                  }),
                    "]");
    return true;
  }
  if (name == "output_operand_aliases") {
    absl::StrAppend(out, "[",
                    absl::StrJoin(value->elements, ", ",
                                  [](std::string* s, const SourceAttr* e) {
                                    absl::StrAppend(s, "#stablehlo.output_operand_alias<output_tuple_indices = ",
                                                    IntegerList(e->Find("output_tuple_indices")),
                                                    ", operand_index = ", e->Find("operand_index")->integer,
                                                    ", operand_tuple_indices = ",
                                                    IntegerList(e->Find("operand_tuple_indices")), ">");
                                  }),
                    "]");
    return true;
  }
  if (name == "result_accuracy") {
    std::string atol, rtol;
    AppendMlirNumber(value->Find("atol")->bits, value->Find("atol")->type, &atol);
    AppendMlirNumber(value->Find("rtol")->bits, value->Find("rtol")->type, &rtol);
    absl::StrAppend(out, "#stablehlo.result_accuracy<atol = ", atol, ", rtol = ", rtol,
                    ", ulps = ", value->Find("ulps")->integer, ", mode = #stablehlo.result_accuracy_mode<",
                    value->Find("mode")->text, ">>");
    return true;
  }
  if (name == "ragged_dot_dimension_numbers") {
    absl::StrAppend(out, "#chlo.ragged_dot<",
                    absl::StrJoin(value->entries, ", ",
                                  [](std::string* s, const SourceNamedAttr& e) {
                                    absl::StrAppend(s, e.name, " = ", IntegerList(e.value));
                                  }),
                    ">");
    return true;
  }
  const bool arrays = name != "value" && name != "operand_layouts" && name != "result_layouts" && op != "composite";
  return AppendMlirAttribute(value, arrays, out);
}

// Whether an inherent attribute has no effect: its op means the same without it.
bool IsDefault(absl::string_view op, absl::string_view name, const SourceAttr* value) {
  auto is = [&](auto... names) { return ((name == names) || ...); };
  if (is("use_global_device_ids", "has_dynamic_root", "is_host_transfer")) return value->integer == 0;
  if (is("called_computations", "operand_layouts", "result_layouts", "output_operand_aliases", "result_tilings",
         "layout", "known_expanding_dimensions", "known_nonexpanding_dimensions", "infeed_config", "outfeed_config")) {
    return IsEmpty(value);
  }
  if (name == "backend_config") return value->kind == AttrKind::kString && value->text.empty();
  if (name == "source_target_pairs") return (op == "send" || op == "recv") && IsEmpty(value);
  if (name == "compare_type") return value->text == "NOTYPE";
  if (name == "result_accuracy") return value->Find("mode")->text == "DEFAULT";
  if (name == "composite_attributes") return value->entries.empty();
  if (name == "api_version") return value->text == "API_VERSION_ORIGINAL";
  if (name == "version") return op == "composite" && value->integer == 0;
  if (name == "has_side_effect") return value->integer == 0;
  return IsNone(value);
}

}  // namespace

std::string MlirString(absl::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '"' || c < 0x20 || c >= 0x7F) {
      absl::StrAppendFormat(&out, "\\%02X", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string MlirSymbol(absl::string_view name) {
  return absl::StrCat("@", IsBareWord(name, "_$.") ? std::string(name) : MlirString(name));
}

std::string MlirKey(absl::string_view name) { return IsBareWord(name, "_$.") ? std::string(name) : MlirString(name); }

void AppendMlirNumber(uint64_t bits, const SourceType* type, std::string* out) {
  const ElementKind kind = type->element;
  if (kind == ElementKind::kBool) {
    *out += bits & 1 ? "true" : "false";
    return;
  }
  const int width = ElementBits(kind);
  if (!IsFloatElement(kind)) {
    if (IsUnsignedElement(kind) && kind != ElementKind::kIndex) {
      absl::StrAppend(out, bits);
    } else {
      absl::StrAppend(out, static_cast<int64_t>(bits << (64 - width)) >> (64 - width));
    }
    return;
  }
  if (kind == ElementKind::kF64) {
    double v;
    std::memcpy(&v, &bits, 8);
    if (std::isfinite(v)) return (void)(*out += PrintFloat(v));
  } else if (kind == ElementKind::kF32) {
    const uint32_t low = static_cast<uint32_t>(bits);
    float v;
    std::memcpy(&v, &low, 4);
    if (std::isfinite(v)) return (void)(*out += PrintFloat(v));
  } else if (kind == ElementKind::kBF16) {
    const uint32_t low = static_cast<uint32_t>(bits) << 16;
    float v;
    std::memcpy(&v, &low, 4);
    if (std::isfinite(v)) return (void)(*out += PrintFloat(v));
  }
  absl::StrAppendFormat(out, "0x%0*X", (width + 3) / 4, bits);
}

std::string IntegerList(const SourceAttr* list) {
  absl::StatusOr<std::vector<int64_t>> values = ReadDenseIntegers(list);
  return absl::StrCat("[", values.ok() ? absl::StrJoin(*values, ", ") : "", "]");
}

bool AppendMlirAttribute(const SourceAttr* a, bool arrays, std::string* out) {
  switch (a->kind) {
    case AttrKind::kUnit:
      *out += "unit";
      return true;
    case AttrKind::kBool:
      *out += a->integer ? "true" : "false";
      return true;
    case AttrKind::kInteger:
      AppendMlirNumber(static_cast<uint64_t>(a->integer), a->type, out);
      absl::StrAppend(out, " : ", TypeToString(a->type));
      return true;
    case AttrKind::kFloat:
      AppendMlirNumber(a->bits, a->type, out);
      absl::StrAppend(out, " : ", TypeToString(a->type));
      return true;
    case AttrKind::kString:
      *out += MlirString(a->text);
      return true;
    case AttrKind::kEnum:
    case AttrKind::kOpaque:
      return false;
    case AttrKind::kShardy:
      absl::StrAppend(out, a->text);
      return true;
    case AttrKind::kType:
      *out += TypeToString(a->type);
      return true;
    case AttrKind::kArray:
      *out += '[';
      for (size_t i = 0; i < a->elements.size(); ++i) {
        if (i) *out += ", ";
        if (!AppendMlirAttribute(a->elements[i], arrays, out)) return false;
      }
      *out += ']';
      return true;
    case AttrKind::kDict:
      *out += '{';
      for (size_t i = 0; i < a->entries.size(); ++i) {
        absl::StrAppend(out, i ? ", " : "", MlirKey(a->entries[i].name));
        if (a->entries[i].value->kind == AttrKind::kUnit) continue;
        *out += " = ";
        if (!AppendMlirAttribute(a->entries[i].value, arrays, out)) return false;
      }
      *out += '}';
      return true;
    case AttrKind::kDense: {
      const bool scalar = a->type->inner->kind == TypeKind::kScalar;
      if (!arrays || !IsRow(a) || !scalar || a->splat) {
        AppendDense(a, out);
        return true;
      }
      const size_t step = static_cast<size_t>(ConstantElementBytes(a->type->inner));
      absl::StrAppend(out, "array<", TypeToString(a->type->inner));
      for (size_t i = 0; i < a->text.size(); i += step) {
        *out += i ? ", " : ": ";
        AppendDenseElement(a->text.substr(i, step), a->type->inner, out);
      }
      *out += '>';
      return true;
    }
  }
  return false;
}

bool MlirAttributes(const SourceOp& op, absl::Span<const absl::string_view> skip, std::vector<std::string>* inherent,
                    std::vector<std::string>* discardable, std::string* bad) {
  absl::string_view name = op.name;
  absl::ConsumePrefix(&name, "stablehlo.");
  const OpForm* form = FindNewestForm(op.name);
  std::vector<absl::string_view> done(skip.begin(), skip.end());
  auto is_done = [&](absl::string_view a) { return std::find(done.begin(), done.end(), a) != done.end(); };
  for (const Structure& s : kStructures) {
    if (name != s.op || is_done(s.attribute)) continue;
    std::string text;
    for (const FieldName& f : DimensionFields(s.fields)) {
      const SourceAttr* value = op.Find(f.name);
      done.push_back(f.name);
      if (value == nullptr || (f.is_list && IsEmpty(value))) continue;
      absl::StrAppend(&text, text.empty() ? "" : ", ", f.name, " = ",
                      f.is_list ? IntegerList(value) : absl::StrCat(value->integer));
    }
    inherent->push_back(absl::StrCat(s.attribute, " = #stablehlo.", s.mnemonic, "<", text, ">"));
  }
  if (name == "dot_general" && !is_done("algorithm")) {
    std::string text;
    for (const char* field : kAlgorithmFields) {
      const SourceAttr* value = op.Find(field);
      done.push_back(field);
      if (value == nullptr || IsNone(value)) continue;
      absl::StrAppend(&text, text.empty() ? "" : ", ", field, " = ");
      if (value->kind == AttrKind::kInteger) {
        absl::StrAppend(&text, value->integer);
      } else if (!AppendMlirAttribute(value, false, &text)) {
        *bad = field;
        return false;
      }
    }
    if (!text.empty()) inherent->push_back(absl::StrCat("algorithm = #stablehlo.dot_algorithm<", text, ">"));
  }
  if (name == "convolution" && !is_done("dimension_numbers")) {
    for (const FieldName& f : DimensionFields(AttrId::kConvolutionDims)) done.push_back(f.name);
    inherent->push_back(absl::StrCat(
        "dimension_numbers = #stablehlo.conv<",
        ConvolutionSide(op, "input_batch_dimension", 'b', "input_feature_dimension", 'f', "input_spatial_dimensions"),
        "x",
        ConvolutionSide(op, "kernel_input_feature_dimension", 'i', "kernel_output_feature_dimension", 'o',
                        "kernel_spatial_dimensions"),
        "->",
        ConvolutionSide(op, "output_batch_dimension", 'b', "output_feature_dimension", 'f',
                        "output_spatial_dimensions"),
        ">"));
  }
  if (const SourceAttr* channel = op.Find("channel_id"); channel != nullptr && form != nullptr) {
    const SourceAttr* type = op.Find("channel_type");
    done.push_back("channel_id");
    done.push_back("channel_type");
    if (channel->integer != 0 || type != nullptr) {
      inherent->push_back(absl::StrCat("channel_handle = #stablehlo.channel_handle<handle = ", channel->integer,
                                       ", type = ", type ? type->integer : 1, ">"));
    }
  }
  std::vector<absl::string_view> known =
      form != nullptr ? SplitNames(form->attributes) : std::vector<absl::string_view>();
  const bool foreign = form == nullptr;
  for (const SourceNamedAttr& a : op.attributes) {
    if (is_done(a.name)) continue;
    const bool own =
        foreign ? !absl::StrContains(a.name, '.') : std::find(known.begin(), known.end(), a.name) != known.end();
    std::string text;
    if (!own) {
      text = MlirKey(a.name);
      if (a.value->kind != AttrKind::kUnit) {
        text += " = ";
        if (!AppendMlirAttribute(a.value, false, &text)) {
          *bad = std::string(a.name);
          return false;
        }
      }
      discardable->push_back(std::move(text));
      continue;
    }
    // Layouts are given for operands and results, or for neither.
    const bool layouts = a.name == "operand_layouts" || a.name == "result_layouts";
    const SourceAttr* other =
        layouts ? op.Find(a.name == "result_layouts" ? "operand_layouts" : "result_layouts") : nullptr;
    const bool needed = other != nullptr && !IsEmpty(other);
    if (!needed && IsDefault(name, a.name, a.value)) continue;
    if (a.name == "use_global_device_ids") {
      inherent->push_back(std::string(a.name));
      continue;
    }
    text = absl::StrCat(a.name, " = ");
    if (!AppendInherent(name, a.name, a.value, &text)) {
      *bad = std::string(a.name);
      return false;
    }
    inherent->push_back(std::move(text));
  }
  return true;
}

}  // namespace backplane::stablehlo
