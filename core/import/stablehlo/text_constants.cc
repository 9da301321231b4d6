// dense<...> in all its forms. A constant's text can be megabytes, so its inside is read from the characters, not
// through the tokens.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/import/stablehlo/bytecode_entries.h"
#include "core/import/stablehlo/text_internal.h"
#include "core/types/numeric.h"

namespace backplane::stablehlo {
namespace {

// Reads the literal inside dense< > of one element type into bytes.
class LiteralReader {
 public:
  LiteralReader(absl::string_view text, const SourceType* type) : text_(text), type_(type) {
    const SourceType* e = type->inner;
    complex_ = e->kind == TypeKind::kComplex;
    if (complex_) e = e->inner;
    if (e->kind == TypeKind::kQuantized) e = e->quantization->storage;
    kind_ = e->element;
    step_ = ElementStorageBytes(kind_);
    bits_ = ElementBits(kind_);
  }

  bool Read() {
    Space();
    if (At('[')) {
      if (!List(0)) return false;
      splat_ = false;
    } else if (pos_ < text_.size()) {
      splat_ = true;
      if (!Element()) return false;
    }
    Space();
    return pos_ == text_.size() || Bad("unexpected character");
  }

  bool splat() const { return splat_; }
  absl::string_view bytes() const { return absl::string_view(bytes_.data(), bytes_.size()); }
  const std::string& why() const { return why_; }
  size_t position() const { return pos_; }

 private:
  bool Bad(absl::string_view message) {
    if (why_.empty()) why_ = std::string(message);
    return false;
  }
  void Space() {
    while (pos_ < text_.size() && absl::ascii_isspace(text_[pos_])) ++pos_;
  }
  bool At(char c) const { return pos_ < text_.size() && text_[pos_] == c; }

  // The shape is known, so nesting is bounded by the rank.
  bool List(size_t level) {
    if (level >= type_->dims.size()) return Bad(absl::StrCat("lists are nested deeper than rank ", type_->dims.size()));
    ++pos_;
    int64_t n = 0;
    Space();
    if (At(']')) {
      ++pos_;
    } else {
      for (;;) {
        Space();
        bool list = level + 1 < type_->dims.size();
        if (list && !At('[')) return Bad("expected [");
        if (list ? !List(level + 1) : !Element()) return false;
        ++n;
        Space();
        if (At(']')) {
          ++pos_;
          break;
        }
        if (!At(',')) return Bad("expected , or ]");
        ++pos_;
      }
    }
    if (n != type_->dims[level]) {
      return Bad(absl::StrCat("list of ", n, " elements, dimension ", level, " is ", type_->dims[level]));
    }
    return true;
  }

  bool Element() {
    Space();
    if (!complex_) return Part();
    if (!At('(')) return Bad("expected (real, imaginary)");
    ++pos_;
    Space();
    if (!Part()) return false;
    Space();
    if (!At(',')) return Bad("expected ,");
    ++pos_;
    Space();
    if (!Part()) return false;
    Space();
    if (!At(')')) return Bad("expected )");
    ++pos_;
    return true;
  }

  void Append(uint64_t bits) {
    if (bits_ < 64) bits &= (uint64_t{1} << bits_) - 1;
    for (int b = 0; b < step_; ++b) bytes_.push_back(static_cast<char>(bits >> (8 * b)));
  }

  bool Part() {
    absl::string_view rest = text_.substr(pos_);
    if (kind_ == ElementKind::kBool && (absl::StartsWith(rest, "true") || absl::StartsWith(rest, "false"))) {
      pos_ += rest[0] == 't' ? 4 : 5;
      Append(rest[0] == 't');
      return true;
    }
    bool negative = At('-');
    size_t start = pos_ + negative;
    const char* first = text_.data() + start;
    const char* last = text_.data() + text_.size();
    if (absl::StartsWith(text_.substr(start), "0x")) {
      uint64_t value = 0;
      auto [end, error] = std::from_chars(first + 2, last, value, 16);
      if (error != std::errc()) return Bad("hexadecimal number that cannot be read");
      if (bits_ < 64 && value >> bits_ != 0) return Bad(absl::StrCat("number does not fit in ", bits_, " bits"));
      pos_ = end - text_.data();
      Append(negative ? ~value + 1 : value);
      return true;
    }
    if (IsFloatElement(kind_)) {
      size_t end = start;
      bool point = false;
      while (end < text_.size() && (absl::ascii_isalnum(text_[end]) || text_[end] == '.' ||
                                    ((text_[end] == '-' || text_[end] == '+') && end > start &&
                                     (text_[end - 1] == 'e' || text_[end - 1] == 'E')))) {
        point |= text_[end] == '.';
        ++end;
      }
      double value = 0;
      auto [stop, error] = std::from_chars(first, text_.data() + end, value);
      if (error == std::errc::result_out_of_range) {
        // Beyond the range of f64. abseil's function sets a huge or a tiny value, std's leaves it as it was.
        absl::from_chars(first, text_.data() + end, value);
        value = value > 1 ? HUGE_VAL : 0.0;
      } else if (error != std::errc() || stop != text_.data() + end) {
        return Bad("float that cannot be read");
      }
      if (!point) return Bad("float without a decimal point");
      pos_ = end;
      Append(EncodeFloat(negative ? -value : value, kind_));
      return true;
    }
    uint64_t value = 0;
    auto [end, error] = std::from_chars(first, last, value, 10);
    if (error != std::errc()) return Bad("integer that cannot be read");
    // The text does not tell whether the type is signed: negative numbers have the signed range, others the unsigned
    // one.
    if (negative ? value > uint64_t{1} << (bits_ - 1) : bits_ < 64 && value >> bits_ != 0)
      return Bad(absl::StrCat("integer does not fit in ", bits_, " bits"));
    pos_ = end - text_.data();
    Append(negative ? ~value + 1 : value);
    return true;
  }

  absl::string_view text_;
  const SourceType* type_;
  ElementKind kind_;
  bool complex_ = false;
  int step_ = 0;
  int bits_ = 0;
  size_t pos_ = 0;
  bool splat_ = false;
  std::string bytes_;
  std::string why_;
};

}  // namespace

uint64_t EncodeFloat(double value, ElementKind kind) {
  switch (kind) {
    case ElementKind::kF64:
      return std::bit_cast<uint64_t>(value);
    case ElementKind::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case ElementKind::kF16:
      return f16(RoundToOddFloat(value)).bits;
    case ElementKind::kBF16:
      return bf16(RoundToOddFloat(value)).bits;
    case ElementKind::kTF32: {
      // The high 19 bits of a float, rounded to nearest even.
      uint32_t u = std::bit_cast<uint32_t>(RoundToOddFloat(value));
      return (u + 0xfff + ((u >> 13) & 1)) >> 13;
    }
    default:
      return FloatToSmallBits(GetPrimitiveType(kind), RoundToOddFloat(value));
  }
}

const SourceAttr* TextParser::ParseDense() {
  size_t at = token_.position;
  Advance();
  if (!At('<')) {
    Expect('<');
    return nullptr;
  }
  // < and > occur inside only in strings.
  size_t start = token_.position + 1, end = start;
  bool quoted = false;
  while (end < text_.size() && (quoted || text_[end] != '>')) {
    if (text_[end] == '"') quoted = !quoted;
    ++end;
  }
  if (end >= text_.size()) {
    FailAt(at, "dense without an end");
    return nullptr;
  }
  Jump(end + 1);
  Expect(':');
  const SourceType* type = ParseType();
  if (!ok()) return nullptr;
  if (type->kind != TypeKind::kTensor || ConstantElementBytes(type->inner) == 0) {
    FailAt(at, absl::StrCat("constant of type ", TypeToString(type), ", expected a tensor"));
    return nullptr;
  }
  absl::string_view inside = absl::StripAsciiWhitespace(text_.substr(start, end - start));
  if (absl::StartsWith(inside, "\"")) return DenseFromHex(type, inside, false, start);
  return DenseFromLiteral(type, inside, start);
}

const SourceAttr* TextParser::DenseFromLiteral(const SourceType* type, absl::string_view literal, size_t position) {
  int64_t n = 0;
  if (!CountStaticElements(type->dims, &n)) {
    FailAt(position, absl::StrCat("constant of type ", TypeToString(type), ", expected a static tensor"));
    return nullptr;
  }
  LiteralReader reader(literal, type);
  if (!reader.Read()) {
    FailAt(literal.data() - text_.data() + reader.position(), absl::StrCat(reader.why(), " in a constant"));
    return nullptr;
  }
  if (n == 0) return MakeDense(arena_, type, {}, false);
  if (literal.empty()) {
    FailAt(position, absl::StrCat("empty constant of type ", TypeToString(type)));
    return nullptr;
  }
  return MakeDense(arena_, type, arena_.CopyString(reader.bytes()), reader.splat() && n != 1);
}

const SourceAttr* TextParser::DenseFromHex(const SourceType* type, absl::string_view hex, bool resource,
                                           size_t position) {
  absl::string_view digits = hex.size() >= 2 ? hex.substr(1, hex.size() - 2) : hex;
  if (!absl::ConsumePrefix(&digits, "0x") || digits.size() % 2 != 0) {
    FailAt(position, "expected a string of 0x and pairs of hexadecimal digits");
    return nullptr;
  }
  size_t n = digits.size() / 2;
  char* bytes = arena_.NewBytes(n);
  auto value = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < n; ++i) {
    int high = value(digits[2 * i]), low = value(digits[2 * i + 1]);
    if (high < 0 || low < 0) {
      FailAt(position, "bad hexadecimal digit");
      return nullptr;
    }
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  absl::string_view blob(bytes, n);
  if (resource) {
    if (blob.size() < 4) {
      FailAt(position, "resource without its alignment");
      return nullptr;
    }
    blob.remove_prefix(4);
  }
  // A string of the size of one element is a splat, also of i1, whose elements are bytes. Older MLIR packed eight of
  // them into a byte, which can still be told apart where that takes several bytes.
  int64_t count = 0;
  if (type->kind == TypeKind::kTensor && type->inner->kind == TypeKind::kScalar &&
      type->inner->element == ElementKind::kBool && blob.size() == 1 && CountStaticElements(type->dims, &count)) {
    static constexpr char kBits[2] = {0, 1};
    return MakeDense(arena_, type, absl::string_view(&kBits[blob[0] != 0], count == 0 ? 0 : 1), count > 1);
  }
  std::string why;
  const SourceAttr* a = NormalizeConstant(arena_, type, blob, true, &why);
  if (!a) FailAt(position, why);
  return a;
}

const SourceAttr* TextParser::ParseDenseResource() {
  size_t at = token_.position;
  Advance();
  Expect('<');
  absl::string_view key = token_.kind == TokenKind::kString ? ParseStringToken() : ParseKeyword();
  Expect('>');
  Expect(':');
  const SourceType* type = ParseType();
  if (!ok()) return nullptr;
  auto it = resources_.find(key);
  if (it == resources_.end()) {
    FailAt(at, absl::StrCat("resource ", key, " is not in the file"));
    return nullptr;
  }
  return DenseFromHex(type, it->second, true, at);
}

}  // namespace backplane::stablehlo
