#include "core/ops/attribute_values.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/types/literal.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int kMaxDepth = 64;             // nesting of tuples and dictionaries
constexpr int64_t kMaxDevices = 1 << 20;  // more devices than this is no machine

// Product of sizes that are all positive; 0 when one is not or the product passes kMaxDevices.
int64_t DeviceCount(const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d <= 0 || d > kMaxDevices / n) return 0;
    n *= d;
  }
  return n;
}

// Walks over a text; every Take skips blanks first.
class Cursor {
 public:
  Cursor(absl::string_view what, absl::string_view text) : what_(what), text_(text) {}

  absl::Status Error(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(what_, ": ", message, " at offset ", pos_));
  }
  void Skip() {
    while (pos_ < text_.size()) {
      if (absl::ascii_isspace(text_[pos_])) {
        ++pos_;
      } else if (text_.substr(pos_, 2) == "/*" && text_.find("*/", pos_ + 2) != absl::string_view::npos) {
        pos_ = text_.find("*/", pos_ + 2) + 2;
      } else {
        return;
      }
    }
  }
  bool AtEnd() {
    Skip();
    return pos_ >= text_.size();
  }
  char Peek() {
    Skip();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool Take(absl::string_view token) {
    Skip();
    if (!absl::StartsWith(text_.substr(pos_), token)) return false;
    pos_ += token.size();
    return true;
  }
  // Letters, digits and the characters of `more`; empty when there is none.
  absl::string_view Word(absl::string_view more = "_") {
    Skip();
    const size_t start = pos_;
    while (pos_ < text_.size() && (absl::ascii_isalnum(text_[pos_]) || absl::StrContains(more, text_[pos_]))) ++pos_;
    return text_.substr(start, pos_ - start);
  }
  absl::StatusOr<int64_t> Number() {
    const size_t start = pos_;
    int64_t value;
    const absl::string_view word = Word("-");
    if (!absl::SimpleAtoi(word, &value)) {
      pos_ = start;
      return Error("expected a number");
    }
    return value;
  }
  // Numbers between ',' up to `close`, which is taken too.
  absl::StatusOr<Ints> Numbers(absl::string_view close) {
    Ints values;
    if (Take(close)) return values;
    do {
      ASSIGN_OR_RETURN(int64_t v, Number());
      values.push_back(v);
    } while (Take(","));
    if (!Take(close)) return Error(absl::StrCat("expected ',' or '", close, "'"));
    return values;
  }
  // A quoted string of MLIR: \n \t \" \\ and two hex digits.
  absl::StatusOr<std::string> Quoted() {
    if (!Take("\"")) return Error("expected a string");
    std::string out;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      char c = text_[pos_++];
      if (c == '\\') {
        if (pos_ >= text_.size()) break;
        c = text_[pos_++];
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (absl::ascii_isxdigit(c) && pos_ < text_.size() && absl::ascii_isxdigit(text_[pos_])) {
          uint32_t code = 0;
          (void)absl::SimpleHexAtoi(text_.substr(pos_ - 1, 2), &code);
          c = static_cast<char>(code);
          ++pos_;
        } else if (c != '"' && c != '\\') {
          return Error("unknown escape in a string");
        }
      }
      out += c;
    }
    if (pos_ >= text_.size()) return Error("string without an end");
    ++pos_;
    return out;
  }

 private:
  absl::string_view what_, text_;
  size_t pos_ = 0;
};

// ---- Sharding ----

constexpr struct {
  Sharding::Type type;
  absl::string_view name;
} kShardingNames[] = {{Sharding::Type::kReplicated, "replicated"},
                      {Sharding::Type::kMaximal, "maximal"},
                      {Sharding::Type::kManual, "manual"},
                      {Sharding::Type::kUnknown, "unknown"},
                      {Sharding::Type::kUnreduced, "unreduced"}};

absl::string_view NameOf(Sharding::Type type) {
  for (const auto& row : kShardingNames) {
    if (row.type == type) return row.name;
  }
  return "other";
}

absl::StatusOr<Sharding::Type> ParseSubgroupType(Cursor& c) {
  const absl::string_view word = c.Word();
  for (const auto& row : kShardingNames) {
    if (row.name == word && row.type != Sharding::Type::kMaximal) return row.type;
  }
  return c.Error(absl::StrCat("unknown subgroup type '", word, "'"));
}

absl::Status SkipMetadata(Cursor& c) {
  if (!c.Take("{")) return c.Error("expected '{' of metadata");
  for (int depth = 1; depth > 0;) {
    if (c.AtEnd()) return c.Error("metadata without an end");
    if (c.Peek() == '"') {
      RETURN_IF_ERROR(c.Quoted().status());
    } else if (c.Take("{")) {
      ++depth;
    } else if (c.Take("}")) {
      --depth;
    } else if (c.Word("_=.,/-:()[]").empty()) {
      return c.Error("unexpected character in metadata");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTiled(const Cursor& c, const Sharding& s) {
  const int64_t count = DeviceCount(s.tile_dims);
  if (count == 0) return c.Error("tile dimensions must be positive and name no more than 2^20 devices");
  if (s.iota) {
    if (!s.iota->Valid()) return c.Error("device iota does not fit the tile dimensions");
  } else if (static_cast<int64_t>(s.devices.size()) != count) {
    return c.Error(absl::StrCat("tile dimensions name ", count, " devices, found ", s.devices.size()));
  }
  if (s.last_tile_dims.size() > s.tile_dims.size()) return c.Error("more subgroup dimensions than tile dimensions");
  return absl::OkStatus();
}

absl::StatusOr<Sharding> ParseSharding(Cursor& c, int depth) {
  if (depth > kMaxDepth) return c.Error("tuples nested too deep");
  if (!c.Take("{")) return c.Error("expected '{'");
  Sharding s;
  if (c.Peek() == '{' || c.Peek() == '}') {
    s.type = Sharding::Type::kTuple;
    if (c.Take("}")) return s;
    do {
      ASSIGN_OR_RETURN(Sharding element, ParseSharding(c, depth + 1));
      s.tuple.push_back(std::move(element));
    } while (c.Take(","));
    if (!c.Take("}")) return c.Error("expected ',' or '}' in a tuple");
    return s;
  }
  bool has_type = false, has_devices = false;
  while (!c.Take("}")) {
    const absl::string_view word = c.Word();
    if (word == "devices" && c.Take("=")) {
      has_type = has_devices = true;
      s.type = Sharding::Type::kOther;
      if (!c.Take("[")) return c.Error("expected '[' after devices=");
      ASSIGN_OR_RETURN(s.tile_dims, c.Numbers("]"));
      if (c.Take("<=")) {
        IotaDevices iota;
        iota.dims = s.tile_dims;
        if (!c.Take("[")) return c.Error("expected '[' after <=");
        ASSIGN_OR_RETURN(iota.reshape_dims, c.Numbers("]"));
        if (c.Take("T")) {
          if (!c.Take("(")) return c.Error("expected '(' after T");
          ASSIGN_OR_RETURN(iota.transpose_perm, c.Numbers(")"));
        }
        s.iota = std::move(iota);
      } else {
        do {
          ASSIGN_OR_RETURN(int64_t device, c.Number());
          s.devices.push_back(device);
        } while (c.Take(","));
      }
    } else if (word == "device" && c.Take("=") && s.type == Sharding::Type::kMaximal) {
      ASSIGN_OR_RETURN(int64_t device, c.Number());
      s.devices = {device};
    } else if (word == "last_tile_dim_replicate") {
      s.replicate_on_last_tile_dim = true;
    } else if (word == "last_tile_dims" && c.Take("=")) {
      if (!c.Take("{")) return c.Error("expected '{' after last_tile_dims=");
      if (!c.Take("}")) {
        do {
          ASSIGN_OR_RETURN(Sharding::Type t, ParseSubgroupType(c));
          s.last_tile_dims.push_back(t);
        } while (c.Take(","));
        if (!c.Take("}")) return c.Error("expected ',' or '}' in last_tile_dims");
      }
    } else if (word == "metadata" && c.Take("=")) {
      RETURN_IF_ERROR(SkipMetadata(c));
    } else if (word == "shard_as" || word == "shard_like") {
      return absl::UnimplementedError(absl::StrCat("sharding: shard groups (", word, ")"));
    } else {
      bool known = false;
      for (const auto& row : kShardingNames) {
        if (row.name == word && !has_type) {
          s.type = row.type;
          has_type = known = true;
        }
      }
      if (!known) return c.Error(absl::StrCat("unexpected '", word, "'"));
    }
  }
  if (!has_type) return c.Error("no type");
  if (has_devices)
    RETURN_IF_ERROR(CheckTiled(c, s));
  else if (s.replicate_on_last_tile_dim || !s.last_tile_dims.empty())
    return c.Error("subgroup dimensions without devices");
  if (s.type == Sharding::Type::kMaximal && s.devices.size() != 1) return c.Error("maximal needs device=");
  return s;
}

void AppendIotaSource(const IotaDevices& iota, std::string* out) {
  absl::StrAppend(out, "<=[", absl::StrJoin(iota.reshape_dims, ","), "]");
  if (!iota.transpose_perm.empty()) absl::StrAppend(out, "T(", absl::StrJoin(iota.transpose_perm, ","), ")");
}

// ---- FFI dictionary ----

// Element types by their MLIR names.
constexpr struct {
  absl::string_view name;
  PrimitiveType type;
} kMlirTypes[] = {{"i1", PrimitiveType::kPred},  {"i8", PrimitiveType::kS8},     {"i16", PrimitiveType::kS16},
                  {"i32", PrimitiveType::kS32},  {"i64", PrimitiveType::kS64},   {"ui8", PrimitiveType::kU8},
                  {"ui16", PrimitiveType::kU16}, {"ui32", PrimitiveType::kU32},  {"ui64", PrimitiveType::kU64},
                  {"f16", PrimitiveType::kF16},  {"bf16", PrimitiveType::kBF16}, {"f32", PrimitiveType::kF32},
                  {"f64", PrimitiveType::kF64}};

absl::StatusOr<PrimitiveType> ParseMlirType(Cursor& c) {
  const absl::string_view word = c.Word();
  for (const auto& row : kMlirTypes) {
    if (row.name == word) return row.type;
  }
  return c.Error(absl::StrCat("unsupported element type '", word, "'"));
}

absl::string_view MlirName(PrimitiveType type) {
  for (const auto& row : kMlirTypes) {
    if (row.type == type) return row.name;
  }
  return Name(type);
}

absl::StatusOr<std::string> ElementBytes(const Cursor& c, absl::string_view text, PrimitiveType type) {
  const size_t width = static_cast<size_t>(ByteWidth(type));
  if (IsFloat(type) && absl::StartsWith(text, "0x")) {  // the bit pattern
    uint64_t bits = 0;
    if (!absl::SimpleHexAtoi(text, &bits) || (width < 8 && bits >> (8 * width))) {
      return c.Error(absl::StrCat("'", text, "' is no bit pattern of ", MlirName(type)));
    }
    return std::string(reinterpret_cast<const char*>(&bits), width);
  }
  Literal literal(Shape::Scalar(type));
  RETURN_IF_ERROR(ParseElement(text, &literal, 0));
  return std::string(reinterpret_cast<const char*>(literal.bytes()), width);
}

absl::StatusOr<FfiDictionary> ParseDictionary(Cursor& c, int depth);

// Values up to `close`, without it.
absl::StatusOr<std::string> ParseValues(Cursor& c, PrimitiveType type, char close) {
  std::string bytes;
  if (c.Peek() == close) return bytes;
  do {
    ASSIGN_OR_RETURN(std::string element, ElementBytes(c, c.Word("_+-."), type));
    bytes += element;
  } while (c.Take(","));
  return bytes;
}

// After "dense<": numbers or one number for all, then the type tells how many.
absl::StatusOr<FfiAttribute> ParseDense(Cursor& c) {
  std::vector<absl::string_view> words;
  const bool list = c.Take("[");
  if (!(list && c.Take("]"))) {
    do words.push_back(c.Word("_+-."));
    while (list && c.Take(","));
    if (list && !c.Take("]")) return c.Error("expected ',' or ']' in dense elements");
  }
  if (!c.Take(">") || !c.Take(":") || !(c.Take("tensor<") || c.Take("vector<")))
    return c.Error("expected '> : tensor<'");
  int64_t count = 1;
  absl::string_view word = c.Word();
  while (!word.empty() && absl::ascii_isdigit(word[0])) {
    const size_t x = word.find('x');
    int64_t size = 0;
    if (x == absl::string_view::npos || !absl::SimpleAtoi(word.substr(0, x), &size) || size < 0 || size > kMaxDevices ||
        count * size > kMaxDevices) {
      return c.Error("bad tensor size");
    }
    count *= size;
    word.remove_prefix(x + 1);
  }
  Cursor type_cursor("ffi attributes", word);
  ASSIGN_OR_RETURN(PrimitiveType type, ParseMlirType(type_cursor));
  if (!c.Take(">")) return c.Error("expected '>' after a tensor type");
  if (list && static_cast<int64_t>(words.size()) != count) return c.Error("dense elements do not fit their type");
  FfiAttribute a;
  a.kind = FfiAttribute::Kind::kArray;
  a.type = type;
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string element, ElementBytes(c, words[list ? static_cast<size_t>(i) : 0], type));
    a.bytes += element;
  }
  return a;
}

absl::StatusOr<FfiAttribute> ParseValue(Cursor& c, int depth) {
  FfiAttribute a;
  if (c.Peek() == '"') {
    a.kind = FfiAttribute::Kind::kString;
    ASSIGN_OR_RETURN(a.bytes, c.Quoted());
    return a;
  }
  if (c.Peek() == '{') {
    a.kind = FfiAttribute::Kind::kDictionary;
    ASSIGN_OR_RETURN(a.dictionary, ParseDictionary(c, depth + 1));
    return a;
  }
  if (c.Take("array<")) {
    a.kind = FfiAttribute::Kind::kArray;
    ASSIGN_OR_RETURN(a.type, ParseMlirType(c));
    if (c.Take(":")) {
      ASSIGN_OR_RETURN(a.bytes, ParseValues(c, a.type, '>'));
    }
    if (!c.Take(">")) return c.Error("expected ',' or '>' in an array");
    return a;
  }
  if (c.Take("dense<")) return ParseDense(c);
  const absl::string_view word = c.Word("_+-.");
  if (word.empty()) return c.Error("expected a value");
  a.kind = FfiAttribute::Kind::kScalar;
  if (word == "true" || word == "false") {
    a.type = PrimitiveType::kPred;
  } else if (c.Take(":")) {
    ASSIGN_OR_RETURN(a.type, ParseMlirType(c));
  } else {
    a.type = absl::StrContains(word, '.') ? PrimitiveType::kF64 : PrimitiveType::kS64;
  }
  ASSIGN_OR_RETURN(a.bytes, ElementBytes(c, word, a.type));
  return a;
}

absl::StatusOr<FfiDictionary> ParseDictionary(Cursor& c, int depth) {
  if (depth > kMaxDepth) return c.Error("dictionaries nested too deep");
  if (!c.Take("{")) return c.Error("expected '{'");
  FfiDictionary dictionary;
  if (c.Take("}")) return dictionary;
  do {
    std::string key;
    if (c.Peek() == '"') {
      ASSIGN_OR_RETURN(key, c.Quoted());
    } else {
      key = std::string(c.Word("_$."));
      if (key.empty()) return c.Error("expected a name");
    }
    if (!c.Take("=")) return c.Error(absl::StrCat("expected '=' after ", key));
    ASSIGN_OR_RETURN(FfiAttribute value, ParseValue(c, depth));
    if (!dictionary.emplace(key, std::move(value)).second) return c.Error(absl::StrCat("name ", key, " twice"));
  } while (c.Take(","));
  if (!c.Take("}")) return c.Error("expected ',' or '}' in a dictionary");
  return dictionary;
}

std::string QuotedMlir(absl::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\')
      absl::StrAppend(&out, "\\", std::string(1, c));
    else if (absl::ascii_isprint(c))
      out += c;
    else
      absl::StrAppendFormat(&out, "\\%02X", static_cast<unsigned char>(c));
  }
  return out + "\"";
}

// A number as MLIR writes it: floats with a point, special ones as their bits.
std::string ElementText(PrimitiveType type, absl::string_view bytes) {
  absl::StatusOr<Literal> literal = Literal::FromBytes(
      Shape::Scalar(type), absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
  if (!literal.ok()) return "?";
  std::string text = ElementToString(*literal, 0);
  if (!IsFloat(type)) return text;
  if (absl::StrContains(text, 'n')) {  // inf, nan
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return absl::StrFormat("0x%0*X", static_cast<int>(2 * bytes.size()), bits);
  }
  if (!absl::StrContains(text, '.')) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string AttributeText(const FfiAttribute& a) {
  const size_t width = static_cast<size_t>(std::max(1, ByteWidth(a.type)));
  switch (a.kind) {
    case FfiAttribute::Kind::kString:
      return QuotedMlir(a.bytes);
    case FfiAttribute::Kind::kDictionary:
      return ToString(a.dictionary);
    case FfiAttribute::Kind::kScalar: {
      std::string text = ElementText(a.type, a.bytes);
      return a.type == PrimitiveType::kPred ? text : absl::StrCat(text, " : ", MlirName(a.type));
    }
    case FfiAttribute::Kind::kArray:
      break;
  }
  std::string out = absl::StrCat("array<", MlirName(a.type));
  for (size_t i = 0; i + width <= a.bytes.size(); i += width) {
    absl::StrAppend(&out, i == 0 ? ": " : ", ", ElementText(a.type, absl::string_view(a.bytes).substr(i, width)));
  }
  return out + ">";
}

bool IsBareName(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalpha(name[0]) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '.'; });
}

}  // namespace

bool IotaDevices::Valid() const {
  const int64_t count = DeviceCount(dims);
  if (count == 0 || DeviceCount(reshape_dims) != count) return false;
  if (transpose_perm.empty()) return true;
  if (transpose_perm.size() != reshape_dims.size()) return false;
  std::vector<bool> seen(transpose_perm.size(), false);
  for (int64_t p : transpose_perm) {
    if (p < 0 || p >= static_cast<int64_t>(seen.size()) || seen[static_cast<size_t>(p)]) return false;
    seen[static_cast<size_t>(p)] = true;
  }
  return true;
}

Ints IotaDevices::Expand() const {
  if (!Valid()) return {};
  const int64_t count = DeviceCount(dims);
  Ints devices(static_cast<size_t>(count));
  if (transpose_perm.empty()) {
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  const DimVector strides = RowMajorStrides(reshape_dims);
  const size_t rank = reshape_dims.size();
  Ints index(rank, 0);  // in the transposed order
  for (int64_t& device : devices) {
    device = 0;
    for (size_t i = 0; i < rank; ++i) device += index[i] * strides[static_cast<size_t>(transpose_perm[i])];
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < reshape_dims[static_cast<size_t>(transpose_perm[i])]) break;
      index[i] = 0;
    }
  }
  return devices;
}

std::vector<Ints> ReplicaGroups::Expand() const {
  if (!iota) return groups;
  const Ints devices = iota->Expand();
  if (iota->dims.size() != 2 || devices.empty()) return {};
  std::vector<Ints> out;
  const size_t size = static_cast<size_t>(iota->dims[1]);
  for (size_t i = 0; i < devices.size(); i += size) out.emplace_back(devices.begin() + i, devices.begin() + i + size);
  return out;
}

Ints Sharding::DeviceList() const { return iota ? iota->Expand() : devices; }

std::string Sharding::ToString() const {
  if (type == Type::kTuple) {
    return absl::StrCat(
        "{", absl::StrJoin(tuple, ", ", [](std::string* out, const Sharding& s) { *out += s.ToString(); }), "}");
  }
  if (type == Type::kMaximal) return absl::StrCat("{maximal device=", devices.empty() ? 0 : devices[0], "}");
  if (type != Type::kOther) return absl::StrCat("{", NameOf(type), "}");
  std::string out = absl::StrCat("{devices=[", absl::StrJoin(tile_dims, ","), "]");
  if (iota)
    AppendIotaSource(*iota, &out);
  else
    absl::StrAppend(&out, absl::StrJoin(devices, ","));
  if (replicate_on_last_tile_dim) out += " last_tile_dim_replicate";
  if (!last_tile_dims.empty()) {
    absl::StrAppend(&out, " last_tile_dims={",
                    absl::StrJoin(last_tile_dims, ", ", [](std::string* s, Type t) { absl::StrAppend(s, NameOf(t)); }),
                    "}");
  }
  return out + "}";
}

absl::StatusOr<Sharding> ParseSharding(absl::string_view text) {
  Cursor c("sharding", text);
  ASSIGN_OR_RETURN(Sharding s, ParseSharding(c, 0));
  if (!c.AtEnd()) return c.Error("text after the sharding");
  return s;
}

int64_t FfiAttribute::array_size() const {
  const int width = ByteWidth(type);
  return width == 0 ? 0 : static_cast<int64_t>(bytes.size()) / width;
}

std::string ToString(const FfiDictionary& dictionary) {
  std::string out = "{";
  for (const auto& [name, value] : dictionary) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", IsBareName(name) ? name : QuotedMlir(name), " = ",
                    AttributeText(value));
  }
  return out + "}";
}

absl::StatusOr<FfiDictionary> ParseFfiDictionary(absl::string_view text) {
  Cursor c("ffi attributes", text);
  ASSIGN_OR_RETURN(FfiDictionary dictionary, ParseDictionary(c, 0));
  if (!c.AtEnd()) return c.Error("text after the dictionary");
  return dictionary;
}

}  // namespace backplane
