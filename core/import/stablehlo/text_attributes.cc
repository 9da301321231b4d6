#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/text_internal.h"

namespace backplane::stablehlo {
namespace {

// Sets *value from decimal or hexadecimal digits; false when they do not fit into 64 bits.
bool ReadDigits(absl::string_view digits, uint64_t* value) {
  if (absl::StartsWith(digits, "0x")) return absl::SimpleHexAtoi(digits, value);
  return absl::SimpleAtoi(digits, value);
}

struct EnumAttribute {
  const char* name;  // of the attribute and of its mnemonic
  EnumKind kind;
};
constexpr EnumAttribute kEnumAttributes[] = {
    {"comparison_direction", EnumKind::kComparisonDirection},
    {"comparison_type", EnumKind::kComparisonType},
    {"compare_type", EnumKind::kComparisonType},
    {"fft_type", EnumKind::kFft},
    {"precision", EnumKind::kPrecision},
    {"rng_algorithm", EnumKind::kRngAlgorithm},
    {"rng_distribution", EnumKind::kRngDistribution},
    {"transpose", EnumKind::kTranspose},
    {"transpose_a", EnumKind::kTranspose},
    {"result_accuracy_mode", EnumKind::kAccuracyMode},
};

const EnumAttribute* FindEnum(absl::string_view name) {
  for (const EnumAttribute& e : kEnumAttributes) {
    if (name == e.name) return &e;
  }
  return nullptr;
}

}  // namespace

const SourceAttr* TextParser::ParseAttribute() {
  if (attribute_depth_ >= kMaxAttributeDepth) {
    Fail(absl::StrCat("attributes are nested deeper than ", kMaxAttributeDepth));
    return nullptr;
  }
  ++attribute_depth_;
  const SourceAttr* a = ParseAttributeInner();
  --attribute_depth_;
  if (ok() && a && !WeighAttribute(const_cast<SourceAttr*>(a))) Fail("attribute is too large when written out");
  return ok() ? a : nullptr;
}

const SourceAttr* TextParser::MakeOpaque(absl::string_view text) {
  SourceAttr* a = arena_.New<SourceAttr>();
  a->kind = AttrKind::kOpaque;
  a->text = text;
  return a;
}

const SourceAttr* TextParser::ParseAttributeInner() {
  switch (token_.kind) {
    case TokenKind::kString: {
      absl::string_view s = ParseStringToken();
      if (Take(':')) ParseType();
      return MakeString(arena_, s);
    }
    case TokenKind::kAt: {
      absl::string_view s = ParseSymbol();
      // Nested references keep their spelling.
      while (ok() && At(':') && lexer_.position() < text_.size() && text_[lexer_.position()] == ':') {
        Advance();
        Advance();
        absl::string_view next = ParseSymbol();
        s = arena_.CopyString(absl::StrCat(s, "::@", next));
      }
      return MakeString(arena_, s);
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    case TokenKind::kHash:
      return ParseHashAttribute();
    case TokenKind::kBang:
      return MakeType(arena_, ParseType());
    case TokenKind::kPunct:
      if (At('-')) return ParseNumber();
      if (At('[')) return ParseArrayLiteral();
      if (At('{')) {
        std::vector<SourceNamedAttr> entries;
        if (!ParseDictionary(&entries)) return nullptr;
        return MakeDict(arena_, std::move(entries));
      }
      if (At('(')) return MakeType(arena_, ParseType());
      break;
    case TokenKind::kBareId: {
      absl::string_view word = token_.text;
      if (word == "true" || word == "false") {
        Advance();  // no type follows: in `lower = true : tensor<3x3xf32>` it is the operation's
        return MakeBool(arena_, word == "true");
      }
      if (word == "unit") {
        Advance();
        return MakeUnit(arena_);
      }
      if (word == "dense") return ParseDense();
      if (word == "dense_resource") return ParseDenseResource();
      if (word == "array") return ParseDenseArray();
      size_t start = token_.position;
      if (word == "affine_map" || word == "affine_set" || word == "sparse" || word == "opaque" || word == "strided") {
        Advance();
        absl::string_view body = TakeBalanced();
        return MakeOpaque(text_.substr(start, body.data() + body.size() - text_.data() - start));
      }
      if (word == "loc") {
        ParseOptionalLocation();
        return MakeOpaque("loc");
      }
      return MakeType(arena_, ParseType());
    }
    default:
      break;
  }
  Fail(absl::StrCat("expected an attribute, found ", FormatToken()));
  return nullptr;
}

const SourceAttr* TextParser::ParseNumber() {
  size_t at = token_.position;
  bool negative = Take('-');
  bool is_float = token_.kind == TokenKind::kFloat;
  if (!is_float && token_.kind != TokenKind::kInteger) {
    Fail(absl::StrCat("expected a number, found ", FormatToken()));
    return nullptr;
  }
  absl::string_view digits = token_.text;
  Advance();
  const SourceType* type = ScalarType(is_float ? ElementKind::kF64 : ElementKind::kI64);
  if (Take(':')) type = ParseType();
  if (!ok()) return nullptr;
  if (type->kind != TypeKind::kScalar || (is_float && !IsFloatElement(type->element))) {
    FailAt(at, absl::StrCat("number of type ", TypeToString(type)));
    return nullptr;
  }
  if (is_float) {
    double value = 0;
    if (!absl::SimpleAtod(digits, &value)) {
      FailAt(at, "float that cannot be read");
      return nullptr;
    }
    return MakeFloat(arena_, EncodeFloat(negative ? -value : value, type->element), type->element);
  }
  uint64_t value = 0;
  if (!ReadDigits(digits, &value)) {
    FailAt(at, "integer does not fit in 64 bits");
    return nullptr;
  }
  int bits = ElementBits(type->element);
  uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (IsFloatElement(type->element)) {
    if (!absl::StartsWith(digits, "0x")) {
      FailAt(at, "float written as an integer");
      return nullptr;
    }
    return MakeFloat(arena_, value & mask, type->element);
  }
  if ((value & ~mask) != 0) {
    FailAt(at, absl::StrCat("integer does not fit in ", bits, " bits"));
    return nullptr;
  }
  uint64_t result = (negative ? ~value + 1 : value) & mask;
  if (type->element == ElementKind::kBool) return MakeBool(arena_, result);
  if (!IsUnsignedElement(type->element) && bits < 64) {
    result = static_cast<uint64_t>(static_cast<int64_t>(result << (64 - bits)) >> (64 - bits));
  }
  return MakeInteger(arena_, static_cast<int64_t>(result), type->element);
}

const SourceAttr* TextParser::ParseArrayLiteral() {
  Expect('[');
  std::vector<const SourceAttr*> elements;
  if (!Take(']')) {
    do elements.push_back(ParseAttribute());
    while (ok() && Take(','));
    Expect(']');
  }
  return ok() ? MakeArray(arena_, elements) : nullptr;
}

// array<i64: 1, 2> is held as the one-dimensional tensor it means.
const SourceAttr* TextParser::ParseDenseArray() {
  Advance();
  Expect('<');
  const SourceType* element = ParseType();
  if (!ok()) return nullptr;
  if (element->kind != TypeKind::kScalar) {
    Fail(absl::StrCat("array of ", TypeToString(element)));
    return nullptr;
  }
  std::vector<char> bytes;
  int64_t n = 0;
  int step = ElementStorageBytes(element->element);
  if (Take(':')) {
    do {
      uint64_t bits = 0;
      if (TakeWord("true")) {
        bits = 1;
      } else if (!TakeWord("false")) {
        bool negative = Take('-');
        double number = 0;
        if (token_.kind == TokenKind::kFloat && IsFloatElement(element->element) &&
            absl::SimpleAtod(token_.text, &number)) {
          bits = EncodeFloat(negative ? -number : number, element->element);
        } else if (token_.kind == TokenKind::kInteger && ReadDigits(token_.text, &bits)) {
          if (negative) bits = ~bits + 1;
        } else {
          Fail(absl::StrCat("expected an array element, found ", FormatToken()));
          return nullptr;
        }
        Advance();
      }
      int width = ElementBits(element->element);
      if (width < 64) bits &= (uint64_t{1} << width) - 1;
      for (int b = 0; b < step; ++b) bytes.push_back(static_cast<char>(bits >> (8 * b)));
      ++n;
    } while (ok() && Take(','));
  }
  Expect('>');
  if (!ok()) return nullptr;
  absl::string_view data = arena_.CopyString(absl::string_view(bytes.data(), bytes.size()));
  return MakeDense(arena_, MakeTensorType(arena_, {n}, element), data, false);
}

bool TextParser::ParseDictionary(std::vector<SourceNamedAttr>* entries) {
  if (!Expect('{')) return false;
  if (Take('}')) return ok();
  do {
    absl::string_view name;
    if (token_.kind == TokenKind::kString) {
      name = ParseStringToken();
    } else if (token_.kind == TokenKind::kBareId) {
      name = token_.text;
      Advance();
    } else {
      Fail(absl::StrCat("expected an attribute name, found ", FormatToken()));
      return false;
    }
    const SourceAttr* value = Take('=') ? ParseAttribute() : MakeUnit(arena_);
    if (!ok()) return false;
    entries->push_back({name, value});
  } while (Take(','));
  if (!Expect('}')) return false;
  absl::string_view repeated;
  std::vector<SourceNamedAttr> sorted = *entries;
  if (!SortEntries(&sorted, &repeated)) Fail(absl::StrCat("attribute ", repeated, " stands twice"));
  return ok();
}

bool TextParser::ParseOptionalDictionary(std::vector<SourceNamedAttr>* entries) {
  return !At('{') || ParseDictionary(entries);
}

const SourceAttr* TextParser::ParseEnumWord(absl::string_view attribute) {
  const EnumAttribute* e = FindEnum(attribute);
  size_t at = token_.position;
  absl::string_view word = ParseKeyword();
  if (!ok()) return nullptr;
  if (e == nullptr || !IsEnumName(e->kind, word)) {
    FailAt(at, absl::StrCat("unknown ", attribute, " ", word));
    return nullptr;
  }
  return MakeEnum(arena_, word);
}

absl::string_view TextParser::ShardyBody(absl::string_view raw) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (c == '"') quoted = !quoted;
    if (quoted || !absl::ascii_isspace(c)) {
      out.push_back(c);
      // MLIR puts one space behind every comma.
      if (c == ',' && !quoted && i + 1 < raw.size() && !absl::ascii_isspace(raw[i + 1])) out.push_back(' ');
      continue;
    }
    char last = out.empty() ? '(' : out.back();
    size_t next = i;
    while (next < raw.size() && absl::ascii_isspace(raw[next])) ++next;
    char follow = next < raw.size() ? raw[next] : ')';
    bool drop = absl::StrContains("([{<=", last) || absl::StrContains(")]}>=,", follow) || last == ' ';
    if (!drop) out.push_back(' ');
    i = next - 1;
  }
  return arena_.CopyString(out);
}

const SourceAttr* TextParser::ParseHashAttribute() {
  absl::string_view name = token_.text;
  size_t at = token_.position;
  absl::string_view spelled = text_.substr(at, name.size() + 1);
  auto it = aliases_.find(spelled);
  if (it != aliases_.end()) {
    if (it->second.busy) {
      FailAt(at, absl::StrCat("attribute alias ", spelled, " refers to itself"));
      return nullptr;
    }
    Advance();
    if (it->second.attribute) return it->second.attribute;
    it->second.busy = true;
    Token after = token_;
    size_t resume = lexer_.position();
    Jump(it->second.position);
    const SourceAttr* a = ParseAttribute();
    if (!ok()) return nullptr;
    lexer_.set_position(resume);
    token_ = after;
    aliases_[spelled].busy = false;
    aliases_[spelled].attribute = a;
    return a;
  }
  Advance();
  size_t dot = name.find('.');
  absl::string_view dialect = name.substr(0, dot);
  absl::string_view mnemonic = dot == absl::string_view::npos ? absl::string_view() : name.substr(dot + 1);
  size_t end = at + 1 + name.size();
  bool has_body = At('<') && token_.position == end;
  if (mnemonic.empty() && !has_body) {
    FailAt(at, absl::StrCat("attribute alias ", spelled, " is not defined"));
    return nullptr;
  }
  if (dialect == "stablehlo" || (dialect == "chlo" && mnemonic != "ragged_dot")) {
    if (!mnemonic.empty()) return ParseStablehloAttribute(mnemonic);
    // #stablehlo<mnemonic body>
    Expect('<');
    absl::string_view inner = ParseKeyword();
    if (!ok()) return nullptr;
    const SourceAttr* a = FindEnum(inner) ? ParseEnumWord(inner) : ParseStablehloAttribute(inner);
    Expect('>');
    return ok() ? a : nullptr;
  }
  if (dialect == "chlo") return ParseStruct();
  absl::string_view body;
  if (has_body) body = TakeBalanced();
  if (!ok()) return nullptr;
  if (dialect == "sdy") return MakeShardy(arena_, ShardyBody(text_.substr(at, 1 + name.size() + body.size())));
  return MakeOpaque(text_.substr(at, 1 + name.size() + body.size()));
}

const SourceAttr* TextParser::ParseBoundsAttribute() {
  std::vector<int64_t> bounds;
  if (!ParseBounds(&bounds)) return nullptr;
  return MakeI64List(arena_, bounds);
}

const SourceAttr* TextParser::ParseStablehloAttribute(absl::string_view mnemonic) {
  if (FindEnum(mnemonic)) {
    Expect('<');
    const SourceAttr* a = ok() ? ParseEnumWord(mnemonic) : nullptr;
    Expect('>');
    return ok() ? a : nullptr;
  }
  if (mnemonic == "bounds") return ParseBoundsAttribute();
  if (mnemonic == "conv") {
    Expect('<');
    if (TakeWord("raw")) {
      // The struct's brackets are those already open.
      std::vector<SourceNamedAttr> entries;
      while (ok() && !At('>')) {
        absl::string_view key = ParseKeyword();
        Expect('=');
        const SourceAttr* value = ok() ? ParseStructValue(key) : nullptr;
        if (!ok()) return nullptr;
        entries.push_back({key, value});
        if (!Take(',')) break;
      }
      Expect('>');
      return ok() ? MakeDict(arena_, std::move(entries)) : nullptr;
    }
    const SourceAttr* a = ok() ? ParseConvolutionDims() : nullptr;
    Expect('>');
    return ok() ? a : nullptr;
  }
  static constexpr absl::string_view kStructs[] = {"gather",
                                                   "scatter",
                                                   "dot",
                                                   "dot_algorithm",
                                                   "output_operand_alias",
                                                   "channel_handle",
                                                   "type_extensions",
                                                   "result_accuracy",
                                                   "axis_ref",
                                                   "mesh_axis",
                                                   "mesh",
                                                   "replica_group_mesh_axes"};
  for (absl::string_view s : kStructs) {
    if (mnemonic != s) continue;
    const SourceAttr* a = ParseStruct();
    if (!ok()) return nullptr;
    if (mnemonic == "type_extensions") return a->Find("bounds") ? a->Find("bounds") : a;
    if (mnemonic != "result_accuracy") return a;
    auto field = [&](absl::string_view name, const SourceAttr* fallback) {
      return a->Find(name) ? a->Find(name) : fallback;
    };
    const SourceAttr* zero = MakeFloat(arena_, 0, ElementKind::kF64);
    return MakeDict(arena_, {{"atol", field("atol", zero)},
                             {"mode", field("mode", MakeEnum(arena_, "DEFAULT"))},
                             {"rtol", field("rtol", zero)},
                             {"ulps", field("ulps", MakeInteger(arena_, 0))}});
  }
  Fail(absl::StrCat("unknown attribute #stablehlo.", mnemonic));
  return nullptr;
}

const SourceAttr* TextParser::ParseStruct() {
  if (attribute_depth_ >= kMaxAttributeDepth) {
    Fail(absl::StrCat("attributes are nested deeper than ", kMaxAttributeDepth));
    return nullptr;
  }
  ++attribute_depth_;
  std::vector<SourceNamedAttr> entries;
  Expect('<');
  while (ok() && !At('>')) {
    absl::string_view key = ParseKeyword();
    Expect('=');
    const SourceAttr* value = ok() ? ParseStructValue(key) : nullptr;
    if (!ok()) break;
    entries.push_back({key, value});
    if (!Take(',')) break;
  }
  Expect('>');
  --attribute_depth_;
  if (!ok()) return nullptr;
  absl::string_view repeated;
  if (!SortEntries(&entries, &repeated)) {
    Fail(absl::StrCat("field ", repeated, " stands twice"));
    return nullptr;
  }
  return MakeDict(arena_, std::move(entries));
}

const SourceAttr* TextParser::ParseStructValue(absl::string_view key) {
  if (key == "sub_axis_info" && At('(')) {
    int64_t pre_size = 0, size = 0;
    Expect('(');
    ParseInteger(&pre_size);
    Expect(')');
    ParseInteger(&size);
    if (!ok()) return nullptr;
    return MakeDict(arena_, {{"pre_size", MakeInteger(arena_, pre_size)}, {"size", MakeInteger(arena_, size)}});
  }
  if (key == "bounds" && At('[')) {
    // ? is allowed here
    Expect('[');
    std::vector<int64_t> bounds;
    while (ok() && !At(']')) {
      int64_t v = kDynamic;
      if (!Take('?')) ParseInteger(&v);
      bounds.push_back(v);
      if (!Take(',')) break;
    }
    Expect(']');
    return ok() ? MakeI64List(arena_, bounds) : nullptr;
  }
  if (At('<')) return ParseStruct();
  if (At('[') && key == "axes") {
    Expect('[');
    std::vector<const SourceAttr*> elements;
    while (ok() && !At(']')) {
      elements.push_back(At('<') ? ParseStruct() : ParseAttribute());
      if (!Take(',')) break;
    }
    Expect(']');
    return ok() ? MakeArray(arena_, elements) : nullptr;
  }
  if (At('[')) {
    std::vector<int64_t> values;
    return ParseIntegerList(&values) ? MakeI64List(arena_, values) : nullptr;
  }
  return ParseAttribute();
}

bool TextParser::ParseConvolutionSide(absl::string_view letters, int64_t named[2], std::vector<int64_t>* spatial) {
  size_t at = token_.position;
  Expect('[');
  named[0] = named[1] = -1;
  std::vector<std::pair<int64_t, int64_t>> found;  // spatial number, position
  int64_t position = 0;
  do {
    if (token_.kind == TokenKind::kInteger) {
      int64_t n = 0;
      ParseInteger(&n);
      found.push_back({n, position});
    } else {
      absl::string_view letter = ParseKeyword();
      if (!ok()) return false;
      size_t which = letter.size() == 1 ? letters.find(letter[0]) : absl::string_view::npos;
      if (which == absl::string_view::npos || named[which] >= 0) {
        Fail(absl::StrCat("unexpected dimension ", letter));
        return false;
      }
      named[which] = position;
    }
    ++position;
  } while (ok() && Take(','));
  Expect(']');
  if (!ok()) return false;
  spatial->assign(found.size(), -1);
  for (auto [n, p] : found) {
    if (n < 0 || n >= static_cast<int64_t>(found.size()) || (*spatial)[n] >= 0) {
      FailAt(at, absl::StrCat("spatial dimension ", n, " of ", found.size()));
      return false;
    }
    (*spatial)[n] = p;
  }
  if (named[0] < 0 || named[1] < 0) FailAt(at, "a named dimension is missing");
  return ok();
}

const SourceAttr* TextParser::ParseConvolutionDims() {
  int64_t input[2], kernel[2], output[2];
  std::vector<int64_t> in_spatial, kernel_spatial, out_spatial;
  if (!ParseConvolutionSide("bf", input, &in_spatial) || !ExpectWord("x") ||
      !ParseConvolutionSide("io", kernel, &kernel_spatial)) {
    return nullptr;
  }
  if (!TakeArrow()) Fail("expected -> between convolution dimensions");
  if (!ok() || !ParseConvolutionSide("bf", output, &out_spatial)) return nullptr;
  return MakeDict(arena_, {{"input_batch_dimension", MakeInteger(arena_, input[0])},
                           {"input_feature_dimension", MakeInteger(arena_, input[1])},
                           {"input_spatial_dimensions", MakeI64List(arena_, in_spatial)},
                           {"kernel_input_feature_dimension", MakeInteger(arena_, kernel[0])},
                           {"kernel_output_feature_dimension", MakeInteger(arena_, kernel[1])},
                           {"kernel_spatial_dimensions", MakeI64List(arena_, kernel_spatial)},
                           {"output_batch_dimension", MakeInteger(arena_, output[0])},
                           {"output_feature_dimension", MakeInteger(arena_, output[1])},
                           {"output_spatial_dimensions", MakeI64List(arena_, out_spatial)}});
}

}  // namespace backplane::stablehlo
