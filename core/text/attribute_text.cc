#include "core/text/attribute_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/text/mesh_groups.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr absl::string_view kPrecisions[] = {"default", "high", "highest", "packed_nibble"};

// Named dot algorithms. kInvalid represents tf32, which is no element type. Any f8 type represents any_f8.
constexpr PrimitiveType kTf32 = PrimitiveType::kInvalid, kF16 = PrimitiveType::kF16, kBF16 = PrimitiveType::kBF16,
                        kF32 = PrimitiveType::kF32, kF64 = PrimitiveType::kF64, kF8 = PrimitiveType::kF8E5M2;
constexpr absl::string_view kUnsetAlgorithm = "unset";
struct NamedAlgorithm {
  absl::string_view name;
  PrimitiveType operand, accumulation;
  int64_t primitives;
  bool imprecise = false;
};
constexpr NamedAlgorithm kAlgorithms[] = {
    {"dot_any_f8_any_f8_f32", kF8, kF32, 1},  {"dot_any_f8_any_f8_f32_fast_accum", kF8, kF32, 1, true},
    {"dot_f16_f16_f16", kF16, kF16, 1},       {"dot_f16_f16_f32", kF16, kF32, 1},
    {"dot_bf16_bf16_bf16", kBF16, kBF16, 1},  {"dot_bf16_bf16_f32", kBF16, kF32, 1},
    {"dot_bf16_bf16_f32_x3", kBF16, kF32, 3}, {"dot_bf16_bf16_f32_x6", kBF16, kF32, 6},
    {"dot_bf16_bf16_f32_x9", kBF16, kF32, 9}, {"dot_tf32_tf32_f32", kTf32, kF32, 1},
    {"dot_tf32_tf32_f32_x3", kTf32, kF32, 3}, {"dot_f32_f32_f32", kF32, kF32, 1},
    {"dot_f64_f64_f64", kF64, kF64, 1},
};

std::string PutInBraces(const Ints& v) { return absl::StrCat("{", absl::StrJoin(v, ","), "}"); }

// ---- attributes with several keys ----

template <typename Dims>
struct Key {
  absl::string_view name;
  Ints Dims::*list;
  bool always;
};
constexpr Key<DotDimensions> kDotKeys[] = {{"lhs_batch_dims", &DotDimensions::lhs_batch, false},
                                           {"lhs_contracting_dims", &DotDimensions::lhs_contracting, true},
                                           {"rhs_batch_dims", &DotDimensions::rhs_batch, false},
                                           {"rhs_contracting_dims", &DotDimensions::rhs_contracting, true}};
constexpr Key<RaggedDotDimensions> kRaggedKeys[] = {{"lhs_ragged_dims", &RaggedDotDimensions::lhs_ragged, false},
                                                    {"rhs_group_dims", &RaggedDotDimensions::rhs_group, false}};
constexpr Key<GatherDimensions> kGatherKeys[] = {
    {"offset_dims", &GatherDimensions::offset_dims, true},
    {"collapsed_slice_dims", &GatherDimensions::collapsed_slice_dims, true},
    {"start_index_map", &GatherDimensions::start_index_map, true},
    {"operand_batching_dims", &GatherDimensions::operand_batching_dims, false},
    {"start_indices_batching_dims", &GatherDimensions::start_indices_batching_dims, false}};
constexpr Key<ScatterDimensions> kScatterKeys[] = {
    {"update_window_dims", &ScatterDimensions::update_window_dims, true},
    {"inserted_window_dims", &ScatterDimensions::inserted_window_dims, true},
    {"scatter_dims_to_operand_dims", &ScatterDimensions::scatter_dims_to_operand_dims, true},
    {"input_batching_dims", &ScatterDimensions::input_batching_dims, false},
    {"scatter_indices_batching_dims", &ScatterDimensions::scatter_indices_batching_dims, false}};

void AppendField(absl::string_view key, absl::string_view value, std::string* out) {
  if (!out->empty() && !absl::EndsWith(*out, ", ")) *out += ", ";
  absl::StrAppend(out, key, "=", value);
}

template <typename Dims, size_t n>
void AppendKeys(const Key<Dims> (&keys)[n], const Dims& dims, std::string* out) {
  for (const Key<Dims>& k : keys) {
    if (k.always || !(dims.*k.list).empty()) AppendField(k.name, PutInBraces(dims.*k.list), out);
  }
}

template <typename Dims, size_t n>
absl::StatusOr<bool> ParseKeys(HloLexer& lexer, absl::string_view key, const Key<Dims> (&keys)[n], Dims* dims) {
  for (const Key<Dims>& k : keys) {
    if (k.name == key) {
      ASSIGN_OR_RETURN(dims->*k.list, lexer.IntList());
      return true;
    }
  }
  return false;
}

// Whether `key` belongs to the attribute `id`. Parses its value in that case.
absl::StatusOr<bool> ParseMultiKey(HloLexer& lexer, absl::string_view key, AttrId id, Attributes* attrs) {
  bool found = false;
  switch (GetKind(id)) {
    case AttrKind::DotDims: {
      DotDimensions d = attrs->GetAs<DotDimensions>(id);
      ASSIGN_OR_RETURN(found, ParseKeys(lexer, key, kDotKeys, &d));
      if (found) attrs->Set(id, std::move(d));
      return found;
    }
    case AttrKind::RaggedDims: {
      RaggedDotDimensions d = attrs->GetAs<RaggedDotDimensions>(id);
      ASSIGN_OR_RETURN(found, ParseKeys(lexer, key, kDotKeys, &d.dot));
      if (!found) {
        ASSIGN_OR_RETURN(found, ParseKeys(lexer, key, kRaggedKeys, &d));
      }
      if (found) attrs->Set(id, std::move(d));
      return found;
    }
    case AttrKind::GatherDims: {
      GatherDimensions d = attrs->GetAs<GatherDimensions>(id);
      if (key == "index_vector_dim") {
        ASSIGN_OR_RETURN(d.index_vector_dim, lexer.Int());
        found = true;
      } else {
        ASSIGN_OR_RETURN(found, ParseKeys(lexer, key, kGatherKeys, &d));
      }
      if (found) attrs->Set(id, std::move(d));
      return found;
    }
    case AttrKind::ScatterDims: {
      ScatterDimensions d = attrs->GetAs<ScatterDimensions>(id);
      if (key == "index_vector_dim") {
        ASSIGN_OR_RETURN(d.index_vector_dim, lexer.Int());
        found = true;
      } else {
        ASSIGN_OR_RETURN(found, ParseKeys(lexer, key, kScatterKeys, &d));
      }
      if (found) attrs->Set(id, std::move(d));
      return found;
    }
    default:
      return false;
  }
}

// ---- attributes with one key ----

absl::StatusOr<PaddingConfig> ParsePadding(HloLexer& lexer) {
  PaddingConfig config;
  const size_t at = lexer.position();
  const absl::string_view text = lexer.Run("_-");
  if (text.empty()) return config;  // a scalar has no dimension to pad
  for (absl::string_view dim : absl::StrSplit(text, 'x')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(dim, '_');
    PaddingDimension p;
    int64_t* fields[] = {&p.low, &p.high, &p.interior};
    bool ok = parts.size() == 2 || parts.size() == 3;
    for (size_t i = 0; ok && i < parts.size(); ++i) {
      ok = absl::SimpleAtoi(parts[i], fields[i]);
    }
    if (!ok) return lexer.ErrorAt(at, absl::StrCat("bad padding '", dim, "'"));
    config.push_back(p);
  }
  return config;
}

absl::StatusOr<SliceConfig> ParseSlices(HloLexer& lexer) {
  SliceConfig slices;
  RETURN_IF_ERROR(lexer.Expect("{", "of slices"));
  if (lexer.Take("}")) return slices;
  do {
    SliceDimension d;
    RETURN_IF_ERROR(lexer.Expect("[", "of a slice"));
    ASSIGN_OR_RETURN(d.start, lexer.Int());
    RETURN_IF_ERROR(lexer.Expect(":", "in a slice"));
    ASSIGN_OR_RETURN(d.limit, lexer.Int());
    if (lexer.Take(":")) {
      ASSIGN_OR_RETURN(d.stride, lexer.Int());
    }
    RETURN_IF_ERROR(lexer.Expect("]", "of a slice"));
    slices.push_back(d);
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of slices"));
  return slices;
}

absl::StatusOr<Pairs> ParsePairs(HloLexer& lexer) {
  Pairs pairs;
  RETURN_IF_ERROR(lexer.Expect("{", "of pairs"));
  if (lexer.Take("}")) return pairs;
  do {
    ASSIGN_OR_RETURN(Ints pair, lexer.IntList());
    if (pair.size() != 2) return lexer.Error("expected a pair of integers");
    pairs.emplace_back(pair[0], pair[1]);
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of pairs"));
  return pairs;
}

absl::StatusOr<Precisions> ParsePrecisions(HloLexer& lexer) {
  Precisions out;
  RETURN_IF_ERROR(lexer.Expect("{", "of precisions"));
  if (lexer.Take("}")) return out;
  do {
    const absl::string_view name = lexer.Name();
    const auto* it = std::find(std::begin(kPrecisions), std::end(kPrecisions), name);
    if (it == std::end(kPrecisions)) return lexer.Error(absl::StrCat("unknown precision '", name, "'"));
    out.push_back(static_cast<Precision>(it - std::begin(kPrecisions)));
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of precisions"));
  return out;
}

absl::StatusOr<OutputOperandAliases> ParseAliases(HloLexer& lexer) {
  OutputOperandAliases out;
  RETURN_IF_ERROR(lexer.Expect("{", "of aliases"));
  if (lexer.Take("}")) return out;
  do {
    OutputOperandAlias a;
    ASSIGN_OR_RETURN(a.output_index, lexer.IntList());
    RETURN_IF_ERROR(lexer.Expect(":", "after an output index"));
    RETURN_IF_ERROR(lexer.Expect("(", "of an alias"));
    ASSIGN_OR_RETURN(a.operand, lexer.Int());
    RETURN_IF_ERROR(lexer.Expect(",", "after an operand number"));
    ASSIGN_OR_RETURN(a.operand_index, lexer.IntList());
    RETURN_IF_ERROR(lexer.Expect(")", "of an alias"));
    out.push_back(std::move(a));
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of aliases"));
  return out;
}

absl::StatusOr<std::vector<Shape>> ParseShapes(HloLexer& lexer, bool braced) {
  std::vector<Shape> shapes;
  if (!braced) {
    ASSIGN_OR_RETURN(Shape s, lexer.Shape());
    shapes.push_back(std::move(s));
    return shapes;
  }
  RETURN_IF_ERROR(lexer.Expect("{", "of shapes"));
  if (lexer.Take("}")) return shapes;
  do {
    ASSIGN_OR_RETURN(Shape s, lexer.Shape());
    shapes.push_back(std::move(s));
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of shapes"));
  return shapes;
}

absl::StatusOr<double> ParseDouble(HloLexer& lexer) {
  const size_t at = lexer.position();
  const absl::string_view text = lexer.Number();
  Literal value(Shape::Scalar(PrimitiveType::kF64));
  if (absl::Status s = ParseElement(text, &value, 0); !s.ok()) return lexer.ErrorAt(at, "expected a number");
  return value.data<double>()[0];
}

std::string DoubleText(double v) {
  Literal value = Literal::Scalar(PrimitiveType::kF64, v);
  return ElementToString(value, 0);
}

bool IsEnum(AttrKind kind) { return kind >= AttrKind::EnumComparisonDirection; }

absl::StatusOr<AttrValue> ParseValue(HloLexer& lexer, AttrId id) {
  switch (GetKind(id)) {
    case AttrKind::Bool:
      return lexer.Bool();
    case AttrKind::Int:
      return lexer.Int();
    case AttrKind::Double:
      return ParseDouble(lexer);
    case AttrKind::String: {
      if (id == AttrId::kDomain) {
        ASSIGN_OR_RETURN(absl::string_view raw, lexer.BalancedBraces());
        return AttrValue(std::string(raw));
      }
      return lexer.String();
    }
    case AttrKind::Ints:
      return lexer.IntList();
    case AttrKind::Type: {
      const absl::string_view name = lexer.Name();
      const std::optional<PrimitiveType> type = PrimitiveTypeFromName(name);
      if (!type) return lexer.Error(absl::StrCat("unknown element type '", name, "'"));
      return AttrValue(*type);
    }
    case AttrKind::Shapes:
      return ParseShapes(lexer, id != AttrId::kOutfeedShape);
    case AttrKind::Window:
      return ParseWindow(lexer);
    case AttrKind::ConvDims:
      return ParseConvolutionDimensions(lexer);
    case AttrKind::Padding:
      return ParsePadding(lexer);
    case AttrKind::Slices:
      return ParseSlices(lexer);
    case AttrKind::Groups:
      return ParseReplicaGroups(lexer);
    case AttrKind::Pairs:
      return ParsePairs(lexer);
    case AttrKind::Precisions:
      return ParsePrecisions(lexer);
    case AttrKind::Algorithm: {
      const size_t at = lexer.position();
      absl::StatusOr<DotAlgorithm> a = ParseDotAlgorithm(lexer.Name());
      if (!a.ok()) return lexer.Locate(at, a.status());
      return AttrValue(*a);
    }
    case AttrKind::Aliases:
      return ParseAliases(lexer);
    case AttrKind::Ffi: {
      const size_t at = lexer.position();
      ASSIGN_OR_RETURN(absl::string_view raw, lexer.BalancedBraces());
      absl::StatusOr<FfiDictionary> d = ParseFfiDictionary(raw);
      if (!d.ok()) return lexer.Locate(at, d.status());
      return AttrValue(*std::move(d));
    }
    default:
      break;
  }
  const size_t at = lexer.position();
  const absl::string_view name = lexer.Name();
  const std::optional<int> value = IsEnum(GetKind(id)) ? ParseEnum(GetKind(id), name) : std::nullopt;
  if (!value) return lexer.ErrorAt(at, absl::StrCat("unknown value '", name, "' of ", AttrName(id)));
  return AttrValue(EnumValue{*value});
}

// Strides and interior padding are printed for all dimensions or for none.
std::string SliceText(const SliceConfig& slices) {
  const bool strided = std::any_of(slices.begin(), slices.end(), [](const SliceDimension& d) { return d.stride != 1; });
  return absl::StrCat("{",
                      absl::StrJoin(slices, ", ",
                                    [&](std::string* s, const SliceDimension& d) {
                                      absl::StrAppend(s, "[", d.start, ":", d.limit);
                                      if (strided) absl::StrAppend(s, ":", d.stride);
                                      *s += ']';
                                    }),
                      "}");
}

std::string PaddingText(const PaddingConfig& config) {
  const bool spread =
      std::any_of(config.begin(), config.end(), [](const PaddingDimension& d) { return d.interior != 0; });
  return absl::StrJoin(config, "x", [&](std::string* s, const PaddingDimension& d) {
    absl::StrAppend(s, d.low, "_", d.high);
    if (spread) absl::StrAppend(s, "_", d.interior);
  });
}

std::string ShapesText(const std::vector<Shape>& shapes) {
  return absl::StrJoin(shapes, ", ", [](std::string* s, const Shape& shape) { *s += shape.ToString(true); });
}

std::string FormatValue(AttrId id, const AttrValue& value) {
  const AttrKind kind = GetKind(id);
  switch (kind) {
    case AttrKind::Bool:
      return ValueAs<bool>(value) ? "true" : "false";
    case AttrKind::Int:
      return absl::StrCat(ValueAs<int64_t>(value));
    case AttrKind::Double:
      return DoubleText(ValueAs<double>(value));
    case AttrKind::String: {
      const std::string& s = ValueAs<std::string>(value);
      return id == AttrId::kDomain ? s : FormatQuoted(s);
    }
    case AttrKind::Ints:
      return PutInBraces(ValueAs<Ints>(value));
    case AttrKind::Type:
      return std::string(Name(ValueAs<PrimitiveType>(value)));
    case AttrKind::Shapes: {
      const std::string text = ShapesText(ValueAs<std::vector<Shape>>(value));
      return id == AttrId::kOutfeedShape ? text : absl::StrCat("{", text, "}");
    }
    case AttrKind::Window:
      return FormatWindow(ValueAs<Window>(value));
    case AttrKind::ConvDims:
      return FormatConvolutionDimensions(ValueAs<ConvolutionDimensions>(value));
    case AttrKind::Padding:
      return PaddingText(ValueAs<PaddingConfig>(value));
    case AttrKind::Slices:
      return SliceText(ValueAs<SliceConfig>(value));
    case AttrKind::Groups:
      return FormatReplicaGroups(ValueAs<ReplicaGroups>(value));
    case AttrKind::Pairs:
      return absl::StrCat(
          "{",
          absl::StrJoin(ValueAs<Pairs>(value), ",",
                        [](std::string* s, const auto& p) { absl::StrAppend(s, "{", p.first, ",", p.second, "}"); }),
          "}");
    case AttrKind::Precisions:
      return absl::StrCat(
          "{",
          absl::StrJoin(ValueAs<Precisions>(value), ",",
                        [](std::string* s, Precision p) { absl::StrAppend(s, kPrecisions[static_cast<size_t>(p)]); }),
          "}");
    case AttrKind::Aliases:
      return absl::StrCat("{",
                          absl::StrJoin(ValueAs<OutputOperandAliases>(value), ", ",
                                        [](std::string* s, const OutputOperandAlias& a) {
                                          absl::StrAppend(s, PutInBraces(a.output_index), ": (", a.operand, ", ",
                                                          PutInBraces(a.operand_index), ")");
                                        }),
                          "}");
    case AttrKind::Ffi:
      return ToString(ValueAs<FfiDictionary>(value));
    default:
      return std::string(FormatEnum(kind, ValueAs<EnumValue>(value).value));
  }
}

bool IsF8(PrimitiveType t) { return IsFloat(t) && BitWidth(t) == 8; }

}  // namespace

void AppendAttribute(AttrId id, const AttrValue& value, std::string* out) {
  switch (GetKind(id)) {
    case AttrKind::DotDims:
      AppendKeys(kDotKeys, ValueAs<DotDimensions>(value), out);
      return;
    case AttrKind::RaggedDims: {
      const RaggedDotDimensions& d = ValueAs<RaggedDotDimensions>(value);
      AppendKeys(kDotKeys, d.dot, out);
      AppendKeys(kRaggedKeys, d, out);
      return;
    }
    case AttrKind::GatherDims: {
      const GatherDimensions& d = ValueAs<GatherDimensions>(value);
      AppendKeys(kGatherKeys, d, out);
      AppendField("index_vector_dim", absl::StrCat(d.index_vector_dim), out);
      return;
    }
    case AttrKind::ScatterDims: {
      const ScatterDimensions& d = ValueAs<ScatterDimensions>(value);
      AppendKeys(kScatterKeys, d, out);
      AppendField("index_vector_dim", absl::StrCat(d.index_vector_dim), out);
      return;
    }
    case AttrKind::Algorithm: {
      const std::string name = FormatDotAlgorithm(ValueAs<DotAlgorithm>(value));
      if (name != kUnsetAlgorithm) AppendField(AttrName(id), name, out);
      return;
    }
    default:
      AppendField(AttrName(id), FormatValue(id, value), out);
  }
}

absl::StatusOr<bool> ParseAttribute(HloLexer& lexer, absl::string_view key, const OpInfo& info, Attributes* attrs) {
  for (AttrId id : info.attributes) {
    ASSIGN_OR_RETURN(bool multi, ParseMultiKey(lexer, key, id, attrs));
    if (multi) return true;
    if (AttrName(id) != key) continue;
    ASSIGN_OR_RETURN(AttrValue value, ParseValue(lexer, id));
    attrs->Set(id, std::move(value));
    return true;
  }
  return false;
}

std::string FormatQuoted(absl::string_view s) { return absl::StrCat("\"", absl::CEscape(s), "\""); }

std::string FormatRawOrQuoted(const std::string& s) {
  if (!s.empty() && s[0] == '{') {
    HloLexer lexer(s);
    absl::StatusOr<absl::string_view> raw = lexer.BalancedBraces();
    if (raw.ok() && raw->size() == s.size() && s.find('\n') == std::string::npos) return s;
  }
  return FormatQuoted(s);
}

absl::StatusOr<std::string> ParseRawOrQuoted(HloLexer& lexer) {
  if (lexer.Peek() != '{') return lexer.String();
  ASSIGN_OR_RETURN(absl::string_view raw, lexer.BalancedBraces());
  return std::string(raw);
}

std::string FormatFrontendAttributes(const StringMap& map) {
  return absl::StrCat("{",
                      absl::StrJoin(map, ",",
                                    [](std::string* out, const auto& entry) {
                                      HloLexer key(entry.first);
                                      const bool bare = !entry.first.empty() && key.Name().size() == entry.first.size();
                                      absl::StrAppend(out, bare ? entry.first : FormatQuoted(entry.first), "=",
                                                      FormatRawOrQuoted(entry.second));
                                    }),
                      "}");
}

absl::StatusOr<StringMap> ParseFrontendAttributes(HloLexer& lexer) {
  StringMap map;
  RETURN_IF_ERROR(lexer.Expect("{", "of frontend attributes"));
  if (lexer.Take("}")) return map;
  do {
    std::string key;
    if (lexer.Peek() == '"') {
      ASSIGN_OR_RETURN(key, lexer.String());
    } else {
      key = std::string(lexer.Name());
      if (key.empty()) return lexer.Error("expected the name of a frontend attribute");
    }
    RETURN_IF_ERROR(lexer.Expect("=", "after a frontend attribute's name"));
    ASSIGN_OR_RETURN(std::string value, ParseRawOrQuoted(lexer));
    if (!map.emplace(std::move(key), std::move(value)).second) return lexer.Error("a frontend attribute twice");
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of frontend attributes"));
  return map;
}

std::string FormatWindow(const Window& window) {
  std::string out = "{";
  auto add = [&](absl::string_view key, bool wanted, auto&& field) {
    if (!wanted) return;
    absl::StrAppend(&out, out.size() > 1 ? " " : "", key, "=",
                    absl::StrJoin(window.dimensions, "x",
                                  [&](std::string* s, const WindowDimension& d) { absl::StrAppend(s, field(d)); }));
  };
  auto any = [&](auto&& predicate) {
    return std::any_of(window.dimensions.begin(), window.dimensions.end(), predicate);
  };
  add("size", !window.dimensions.empty(), [](const auto& d) { return d.size; });
  add("stride", any([](const auto& d) { return d.stride != 1; }), [](const auto& d) { return d.stride; });
  add("pad", any([](const auto& d) { return d.padding_low != 0 || d.padding_high != 0; }),
      [](const auto& d) { return absl::StrCat(d.padding_low, "_", d.padding_high); });
  add("lhs_dilate", any([](const auto& d) { return d.base_dilation != 1; }),
      [](const auto& d) { return d.base_dilation; });
  add("rhs_dilate", any([](const auto& d) { return d.window_dilation != 1; }),
      [](const auto& d) { return d.window_dilation; });
  add("rhs_reversal", any([](const auto& d) { return d.window_reversal; }),
      [](const auto& d) { return d.window_reversal ? 1 : 0; });
  return out + "}";
}

absl::StatusOr<Window> ParseWindow(HloLexer& lexer) {
  Window window;
  bool sized = false;
  RETURN_IF_ERROR(lexer.Expect("{", "of a window"));
  while (!lexer.Take("}")) {
    const size_t at = lexer.position();
    const absl::string_view key = lexer.Name();
    RETURN_IF_ERROR(lexer.Expect("=", "in a window"));
    if (key == "pad") {
      ASSIGN_OR_RETURN(PaddingConfig pads, ParsePadding(lexer));
      if (!sized) window.dimensions.resize(pads.size());
      sized = true;
      if (pads.size() != window.dimensions.size()) return lexer.ErrorAt(at, "window fields of different rank");
      for (size_t i = 0; i < pads.size(); ++i) {
        if (pads[i].interior != 0) return lexer.ErrorAt(at, "interior padding in a window");
        window.dimensions[i].padding_low = pads[i].low;
        window.dimensions[i].padding_high = pads[i].high;
      }
      continue;
    }
    Ints values;
    for (absl::string_view part : absl::StrSplit(lexer.Run("-"), 'x')) {
      int64_t v = 0;
      if (!absl::SimpleAtoi(part, &v)) return lexer.ErrorAt(at, absl::StrCat("bad window field ", key));
      values.push_back(v);
    }
    if (!sized) window.dimensions.resize(values.size());
    sized = true;
    if (values.size() != window.dimensions.size()) return lexer.ErrorAt(at, "window fields of different rank");
    for (size_t i = 0; i < values.size(); ++i) {
      WindowDimension& d = window.dimensions[i];
      if (key == "size")
        d.size = values[i];
      else if (key == "stride")
        d.stride = values[i];
      else if (key == "lhs_dilate")
        d.base_dilation = values[i];
      else if (key == "rhs_dilate")
        d.window_dilation = values[i];
      else if (key == "rhs_reversal")
        d.window_reversal = values[i] != 0;
      else
        return lexer.ErrorAt(at, absl::StrCat("unknown window field '", key, "'"));
    }
  }
  return window;
}

std::string FormatConvolutionDimensions(const ConvolutionDimensions& dims) {
  auto side = [](int64_t first, char a, int64_t second, char b, const Ints& spatial) {
    std::string out(spatial.size() + 2, '?');
    auto put = [&](int64_t at, char c) {
      if (at >= 0 && at < static_cast<int64_t>(out.size())) out[static_cast<size_t>(at)] = c;
    };
    put(first, a);
    put(second, b);
    for (size_t i = 0; i < spatial.size(); ++i) put(spatial[i], static_cast<char>('0' + i));
    return out;
  };
  return absl::StrCat(side(dims.input_batch, 'b', dims.input_feature, 'f', dims.input_spatial), "_",
                      side(dims.kernel_input_feature, 'i', dims.kernel_output_feature, 'o', dims.kernel_spatial), "->",
                      side(dims.output_batch, 'b', dims.output_feature, 'f', dims.output_spatial));
}

absl::StatusOr<ConvolutionDimensions> ParseConvolutionDimensions(HloLexer& lexer) {
  const size_t at = lexer.position();
  const std::vector<absl::string_view> arrow = absl::StrSplit(lexer.Run("_->?"), "->");
  const std::vector<absl::string_view> in =
      arrow.size() == 2 ? absl::StrSplit(arrow[0], '_') : std::vector<absl::string_view>();
  if (in.size() != 2) return lexer.ErrorAt(at, "expected dimension labels such as b01f_01io->b01f");
  auto side = [](absl::string_view text, char a, int64_t* first, char b, int64_t* second, Ints* spatial) {
    if (text.size() < 2 || text.size() > 12) return false;
    spatial->assign(text.size() - 2, -1);
    *first = *second = -1;
    for (size_t i = 0; i < text.size(); ++i) {
      int64_t* slot = text[i] == a ? first : text[i] == b ? second : nullptr;
      const size_t digit = static_cast<size_t>(text[i] - '0');
      if (slot == nullptr && absl::ascii_isdigit(static_cast<unsigned char>(text[i])) && digit < spatial->size())
        slot = &(*spatial)[digit];
      if (slot == nullptr || *slot != -1) return false;
      *slot = static_cast<int64_t>(i);
    }
    return true;  // as many slots as characters: all are set
  };
  ConvolutionDimensions d;
  if (!side(in[0], 'b', &d.input_batch, 'f', &d.input_feature, &d.input_spatial) ||
      !side(in[1], 'i', &d.kernel_input_feature, 'o', &d.kernel_output_feature, &d.kernel_spatial) ||
      !side(arrow[1], 'b', &d.output_batch, 'f', &d.output_feature, &d.output_spatial) ||
      in[0].size() != in[1].size() || in[0].size() != arrow[1].size()) {
    return lexer.ErrorAt(at, "bad dimension labels");
  }
  return d;
}

std::string FormatReplicaGroups(const ReplicaGroups& groups) {
  if (!groups.mesh.empty()) return groups.mesh;
  if (!groups.iota) {
    return absl::StrCat(
        "{", absl::StrJoin(groups.groups, ",", [](std::string* s, const Ints& g) { *s += PutInBraces(g); }), "}");
  }
  std::string out = absl::StrCat("[", absl::StrJoin(groups.iota->dims, ","), "]<=[",
                                 absl::StrJoin(groups.iota->reshape_dims, ","), "]");
  if (!groups.iota->transpose_perm.empty())
    absl::StrAppend(&out, "T(", absl::StrJoin(groups.iota->transpose_perm, ","), ")");
  return out;
}

absl::StatusOr<ReplicaGroups> ParseReplicaGroups(HloLexer& lexer) {
  ReplicaGroups groups;
  const size_t at = lexer.position();
  auto list = [&](absl::string_view open, absl::string_view close) -> absl::StatusOr<Ints> {
    Ints values;
    RETURN_IF_ERROR(lexer.Expect(open, "of replica groups"));
    do {
      ASSIGN_OR_RETURN(int64_t v, lexer.Int());
      values.push_back(v);
    } while (lexer.Take(","));
    RETURN_IF_ERROR(lexer.Expect(close, "of replica groups"));
    return values;
  };
  if (lexer.TakeWord("mesh")) return ParseMeshGroups(lexer);
  if (lexer.Peek() == '[') {
    IotaDevices iota;
    ASSIGN_OR_RETURN(iota.dims, list("[", "]"));
    RETURN_IF_ERROR(lexer.Expect("<=", "of replica groups"));
    ASSIGN_OR_RETURN(iota.reshape_dims, list("[", "]"));
    if (lexer.Take("T")) {
      ASSIGN_OR_RETURN(iota.transpose_perm, list("(", ")"));
    }
    if (iota.dims.size() != 2 || !iota.Valid()) return lexer.ErrorAt(at, "replica groups that name no list of devices");
    groups.iota = std::move(iota);
    return groups;
  }
  RETURN_IF_ERROR(lexer.Expect("{", "of replica groups"));
  if (lexer.Take("}")) return groups;
  do {
    ASSIGN_OR_RETURN(Ints group, lexer.IntList());
    groups.groups.push_back(std::move(group));
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of replica groups"));
  return groups;
}

std::string FormatResultAccuracy(const ResultAccuracy& a) {
  if (a.mode == ResultAccuracy::Mode::kHighest) return "{mode=highest}";
  if (a.mode == ResultAccuracy::Mode::kDefault) return "{mode=default}";
  return absl::StrCat("{tolerance={atol=", DoubleText(a.atol), ",rtol=", DoubleText(a.rtol), ",ulps=", a.ulps, "}}");
}

absl::StatusOr<ResultAccuracy> ParseResultAccuracy(HloLexer& lexer) {
  ResultAccuracy a;
  RETURN_IF_ERROR(lexer.Expect("{", "of a result accuracy"));
  if (lexer.TakeWord("mode")) {
    RETURN_IF_ERROR(lexer.Expect("=", "after mode"));
    const size_t at = lexer.position();
    const absl::string_view mode = lexer.Name();
    if (mode == "highest")
      a.mode = ResultAccuracy::Mode::kHighest;
    else if (mode != "default")
      return lexer.ErrorAt(at, absl::StrCat("unknown accuracy mode '", mode, "'"));
  } else if (lexer.TakeWord("tolerance")) {
    a.mode = ResultAccuracy::Mode::kTolerance;
    RETURN_IF_ERROR(lexer.Expect("=", "after tolerance"));
    RETURN_IF_ERROR(lexer.Expect("{", "of a tolerance"));
    do {
      const absl::string_view key = lexer.Name();
      RETURN_IF_ERROR(lexer.Expect("=", "in a tolerance"));
      if (key == "ulps") {
        ASSIGN_OR_RETURN(a.ulps, lexer.Int());
      } else {
        ASSIGN_OR_RETURN(double v, ParseDouble(lexer));
        if (key == "atol")
          a.atol = v;
        else if (key == "rtol")
          a.rtol = v;
        else
          return lexer.Error(absl::StrCat("unknown tolerance '", key, "'"));
      }
    } while (lexer.Take(","));
    RETURN_IF_ERROR(lexer.Expect("}", "of a tolerance"));
  } else {
    return lexer.Error("expected mode= or tolerance=");
  }
  RETURN_IF_ERROR(lexer.Expect("}", "of a result accuracy"));
  return a;
}

absl::StatusOr<DotAlgorithm> ParseDotAlgorithm(absl::string_view name) {
  if (name == kUnsetAlgorithm) return DotAlgorithm{};
  for (const NamedAlgorithm& n : kAlgorithms) {
    if (n.name != name) continue;
    DotAlgorithm a;
    a.lhs_type = a.rhs_type = n.operand;
    a.accumulation_type = n.accumulation;
    a.primitive_operations = n.primitives;
    a.allow_imprecise_accumulation = n.imprecise;
    return a;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dot algorithm '", name, "'"));
}

void ResolveF8Types(PrimitiveType lhs, PrimitiveType rhs, DotAlgorithm* a) {
  if (IsF8(a->lhs_type) && IsF8(lhs)) a->lhs_type = lhs;
  if (IsF8(a->rhs_type) && IsF8(rhs)) a->rhs_type = rhs;
}

std::string FormatDotAlgorithm(const DotAlgorithm& a) {
  for (const NamedAlgorithm& n : kAlgorithms) {
    const bool operands =
        n.operand == kF8 ? IsF8(a.lhs_type) && IsF8(a.rhs_type) : a.lhs_type == n.operand && a.rhs_type == n.operand;
    if (operands && a.accumulation_type == n.accumulation && a.primitive_operations == n.primitives &&
        a.allow_imprecise_accumulation == n.imprecise) {
      return std::string(n.name);
    }
  }
  return std::string(kUnsetAlgorithm);
}

}  // namespace backplane
