#include "conformance/kit/case_literal.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "conformance/kit/case_types.h"

namespace backplane::conformance {
namespace {

using C = ElementClass;
constexpr int kMaxRank = 32;

template <typename... A>
absl::Status Bad(const A&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// ---- Numbers

absl::StatusOr<double> ParseDouble(absl::string_view text) {
  double value = 0;
  const absl::from_chars_result r =
      absl::from_chars(text.data() + (absl::StartsWith(text, "+") ? 1 : 0), text.data() + text.size(), value);
  if (text.empty() || r.ptr != text.data() + text.size() || r.ec == std::errc::invalid_argument) {
    return Bad("'", text, "' is not a number");
  }
  return value;
}

absl::StatusOr<uint64_t> ParseHex(absl::string_view digits, int bits) {
  uint64_t value = 0;
  if (digits.empty() || digits.size() > 16) return Bad("'0x", digits, "' is not 1 to 16 hexadecimal digits");
  for (char c : digits) {
    if (!absl::ascii_isxdigit(c)) return Bad("'0x", digits, "' is not hexadecimal");
    value = value * 16 + (absl::ascii_isdigit(c) ? c - '0' : absl::ascii_tolower(c) - 'a' + 10);
  }
  if (bits < 64 && value >> bits) return Bad("0x", digits, " has more than ", bits, " bits");
  return value;
}

// Converts one float, or one part of a complex number, to the bits of `type`.
absl::StatusOr<uint64_t> ParseFloat(ElementType type, absl::string_view text) {
  const ElementInfo& t = Info(type);
  if (absl::ConsumePrefix(&text, "0x")) return ParseHex(text, t.bits);
  const bool negative = absl::ConsumePrefix(&text, "-");
  const double sign = negative ? -1 : 1;
  const uint64_t sign_bit =
      negative && t.kind != FloatKind::kExponentOnly ? uint64_t{1} << (t.exponent_bits + t.mantissa_bits) : 0;
  if (text == "nan") return RoundToBits(type, std::copysign(std::numeric_limits<double>::quiet_NaN(), sign));
  if (text == "inf") return RoundToBits(type, sign * std::numeric_limits<double>::infinity());
  const bool of_type = text == "max" || text == "tiny" || text == "denorm" || text == "eps";
  if (of_type && negative && t.kind == FloatKind::kExponentOnly) return Bad(t.name, " has no sign");
  if (text == "max") return LargestFiniteBits(type) | sign_bit;
  if (text == "tiny") return SmallestNormalBits(type) | sign_bit;
  if (text == "denorm") return uint64_t{1} | sign_bit;
  if (text == "eps") return RoundToBits(type, sign * std::ldexp(1.0, -t.mantissa_bits));
  if (text.empty() || text[0] == '-' || text[0] == '+') return Bad("'", text, "' is not a number");
  if (type == ElementType::kF32) {  // converts directly, because conversion through double would round twice
    float value = 0;
    const absl::from_chars_result r = absl::from_chars(text.data(), text.data() + text.size(), value);
    if (r.ptr != text.data() + text.size() || r.ec == std::errc::invalid_argument) {
      return Bad("'", text, "' is not a number");
    }
    return RoundToBits(type, sign * static_cast<double>(value));
  }
  absl::StatusOr<double> value = ParseDouble(text);
  if (!value.ok()) return value.status();
  return RoundToBits(type, sign * *value);
}

absl::StatusOr<uint64_t> ParseInteger(ElementType type, absl::string_view text) {
  const ElementInfo& t = Info(type);
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "0x")) return ParseHex(rest, t.bits);
  const bool is_signed = t.cls == C::kSigned;
  const uint64_t top = t.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << t.bits) - 1;
  const uint64_t max = is_signed ? top >> 1 : top, min = is_signed ? ~max : 0;
  // max, max-3, min, min+3
  for (bool upper : {true, false}) {
    rest = text;
    if (!absl::ConsumePrefix(&rest, upper ? "max" : "min")) continue;
    uint64_t by = 0;
    if (!rest.empty() && (rest[0] != (upper ? '-' : '+') || !absl::SimpleAtoi(rest.substr(1), &by) || by > top)) {
      return Bad("'", text, "' is not an integer");
    }
    return upper ? max - by : min + by;
  }
  if (is_signed) {
    int64_t value;
    if (!absl::SimpleAtoi(text, &value)) return Bad("'", text, "' is not an integer of 64 bits");
    if (value > static_cast<int64_t>(max) || value < static_cast<int64_t>(min)) {
      return Bad(text, " is not in the range of ", t.name);
    }
    return static_cast<uint64_t>(value);
  }
  uint64_t value;
  if (!absl::SimpleAtoi(text, &value)) return Bad("'", text, "' is not an unsigned integer of 64 bits");
  if (value > max) return Bad(text, " is not in the range of ", t.name);
  return value;
}

// ---- Parses the text of a literal

class Reader {
 public:
  Reader(absl::string_view text, bool expected) : rest_(text), expected_(expected) {}

  absl::Status ReadShape(Array* array) {
    SkipSpace();
    const size_t open = rest_.find('[');
    if (open == absl::string_view::npos) return Bad("expected a shape such as f32[2,3], found '", rest_, "'");
    const absl::string_view name = rest_.substr(0, open);
    const std::optional<ElementType> type = ElementTypeFromName(name);
    if (!type) return Bad("'", name, "' is no element type");
    array->type = *type;
    const size_t close = rest_.find(']', open);
    if (close == absl::string_view::npos) return Bad("a shape's ']' is missing");
    absl::string_view list = rest_.substr(open + 1, close - open - 1);
    rest_.remove_prefix(close + 1);
    int64_t size = 1;
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      const absl::string_view word = absl::StripAsciiWhitespace(list.substr(0, comma));
      int64_t dim;
      if (!absl::SimpleAtoi(word, &dim) || dim < 0) return Bad("'", word, "' is not the size of a dimension");
      if (dim > kMaxElements || (size *= std::max<int64_t>(dim, 1)) > kMaxElements) {
        return Bad("an array of more than ", kMaxElements, " elements");
      }
      array->dims.push_back(dim);
      if (array->dims.size() > kMaxRank) return Bad("more than ", kMaxRank, " dimensions");
      if (comma + 1 == list.size()) return Bad("a dimension is missing after ','");
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    array->data.assign(array->size() * Info(*type).bytes, '\0');
    return absl::OkStatus();
  }

  // Parses the values. Returns none of them if the text ends here.
  absl::Status ReadValues(Array* array, std::vector<bool>* ignored) {
    array_ = array;
    ignored_ = ignored;
    if (AtWord("iota")) return ReadIota();
    if (AtWord("all")) return ReadAll();
    if (AtWord("random")) return ReadRandom();
    if (array->dims.empty()) return ReadElement(0);
    SkipSpace();
    // One pair of braces around all elements, in row-major order, is accepted for any shape.
    const bool flat = array->dims.size() > 1 && rest_.size() > 1 && rest_[0] == '{' &&
                      absl::StripLeadingAsciiWhitespace(rest_.substr(1))[0] != '{';
    int64_t next = 0;
    if (flat) {
      if (absl::Status s = ReadList(array->size(), -1, &next); !s.ok()) return s;
    } else if (absl::Status s = ReadList(array->dims[0], 0, &next); !s.ok()) {
      return s;
    }
    return next == array->size() || array->size() == 0 ? absl::OkStatus() : Bad("elements are missing");
  }

  bool AtWord(absl::string_view word) {
    SkipSpace();
    if (!absl::StartsWith(rest_, word)) return false;
    if (rest_.size() > word.size() && !absl::ascii_isspace(rest_[word.size()])) return false;
    return true;
  }
  bool Take(absl::string_view word) {
    if (!AtWord(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return rest_.empty();
  }
  absl::string_view rest() const { return rest_; }

  absl::StatusOr<double> ReadNumber() {
    const absl::string_view word = Word();
    return ParseDouble(word);
  }

 private:
  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  // Reads up to a space, comma or bracket; a parenthesized complex number is one word.
  absl::string_view Word() {
    SkipSpace();
    size_t n = 0;
    if (!rest_.empty() && rest_[0] == '(') {
      n = std::min(rest_.find(')'), rest_.size() - 1) + 1;
    } else {
      while (n < rest_.size() && !absl::ascii_isspace(rest_[n]) && rest_[n] != ',' && rest_[n] != '}' &&
             rest_[n] != '{')
        ++n;
    }
    const absl::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }

  // depth -1: a flat list of elements, whatever the dims.
  absl::Status ReadList(int64_t count, int depth, int64_t* next) {
    SkipSpace();
    if (!absl::ConsumePrefix(&rest_, "{")) return Bad("expected '{', found '", rest_.substr(0, 20), "'");
    const bool leaf = depth < 0 || depth + 1 == static_cast<int>(array_->dims.size());
    SkipSpace();
    if (absl::ConsumePrefix(&rest_, "}")) {
      return count == 0 || array_->size() == 0 ? absl::OkStatus() : Bad("an empty list for ", count, " elements");
    }
    for (int64_t i = 0;; ++i) {
      if (i == count) return Bad("more than ", count, " elements in a list");
      if (leaf) {
        if (*next >= array_->size()) return Bad("values for an array without elements");
        if (absl::Status s = ReadElement((*next)++); !s.ok()) return s;
      } else if (absl::Status s = ReadList(array_->dims[depth + 1], depth + 1, next); !s.ok()) {
        return s;
      }
      SkipSpace();
      if (absl::ConsumePrefix(&rest_, ",")) continue;
      if (!absl::ConsumePrefix(&rest_, "}")) return Bad("expected ',' or '}', found '", rest_.substr(0, 20), "'");
      return i + 1 == count ? absl::OkStatus() : Bad("a list of ", i + 1, " elements where the shape has ", count);
    }
  }

  absl::Status ReadElement(int64_t index) {
    const absl::string_view word = Word();
    if (word.empty()) return Bad("expected an element, found '", rest_.substr(0, 20), "'");
    if (word == "*") {
      if (!expected_) return Bad("'*' in an input");
      ignored_->resize(array_->size());
      (*ignored_)[index] = true;
      return absl::OkStatus();
    }
    return SetElement(index, word);
  }

  absl::Status SetElement(int64_t index, absl::string_view word) {
    const ElementInfo& t = Info(array_->type);
    if (t.cls == C::kPred) {
      if (word != "true" && word != "false" && word != "0" && word != "1")
        return Bad("'", word, "' is not true or false");
      WriteBits(array_, index, word == "true" || word == "1");
      return absl::OkStatus();
    }
    if (t.cls == C::kComplex) {
      absl::string_view real = word, imag = "0";
      if (absl::ConsumePrefix(&real, "(")) {
        const size_t comma = real.find(',');
        if (comma == absl::string_view::npos || !absl::ConsumeSuffix(&real, ")"))
          return Bad("'", word, "' is not (re,im)");
        imag = absl::StripAsciiWhitespace(real.substr(comma + 1));
        real = absl::StripAsciiWhitespace(real.substr(0, comma));
      }
      for (int part : {0, 1}) {
        const absl::StatusOr<uint64_t> bits = ParseFloat(GetPartType(t.type), part == 0 ? real : imag);
        if (!bits.ok()) return bits.status();
        WriteBits(array_, index, *bits, part);
      }
      return absl::OkStatus();
    }
    const absl::StatusOr<uint64_t> bits = t.cls == C::kFloat ? ParseFloat(t.type, word) : ParseInteger(t.type, word);
    if (!bits.ok()) return bits.status();
    WriteBits(array_, index, *bits);
    return absl::OkStatus();
  }

  // Converts a number computed by the kit: rounds to a float, truncates to an integer.
  absl::Status SetNumber(int64_t index, double x) {
    const ElementInfo& t = Info(array_->type);
    if (t.cls == C::kFloat || t.cls == C::kComplex) {
      WriteBits(array_, index, RoundToBits(GetPartType(t.type), x));
      return absl::OkStatus();
    }
    x = std::floor(x);
    if (t.cls == C::kPred) {
      WriteBits(array_, index, x != 0);
      return absl::OkStatus();
    }
    const double low = t.cls == C::kSigned ? -std::ldexp(1.0, t.bits - 1) : 0;
    const double high = std::ldexp(1.0, t.cls == C::kSigned ? t.bits - 1 : t.bits);
    if (x < low || x >= high) return Bad(x, " is not in the range of ", t.name);
    WriteBits(array_, index, x < 0 ? static_cast<uint64_t>(static_cast<int64_t>(x)) : static_cast<uint64_t>(x));
    return absl::OkStatus();
  }

  absl::Status ReadIota() {
    Take("iota");
    double start = 0, step = 1;
    if (!AtEnd() && !AtWord("within")) {
      absl::StatusOr<double> a = ReadNumber(), b = ReadNumber();
      if (!a.ok() || !b.ok()) return Bad("expected 'iota' or 'iota START STEP'");
      start = *a, step = *b;
    }
    for (int64_t i = 0; i < array_->size(); ++i) {
      if (absl::Status s = SetNumber(i, start + step * static_cast<double>(i)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadAll() {
    Take("all");
    const absl::string_view word = Word();
    if (word.empty()) return Bad("expected 'all VALUE'");
    for (int64_t i = 0; i < array_->size(); ++i) {
      if (absl::Status s = SetElement(i, word); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadRandom() {
    Take("random");
    const absl::StatusOr<double> seed = ReadNumber(), low = ReadNumber(), high = ReadNumber();
    if (!seed.ok() || !low.ok() || !high.ok() || *seed < 0) return Bad("expected 'random SEED LOW HIGH'");
    uint64_t state = static_cast<uint64_t>(*seed);
    const bool complex = Info(array_->type).cls == C::kComplex;
    for (int64_t i = 0; i < array_->size(); ++i) {
      for (int part = 0; part <= (complex ? 1 : 0); ++part) {
        // SplitMix64; returns its upper 53 bits as a fraction.
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        const double x = *low + std::ldexp(static_cast<double>(z >> 11), -53) * (*high - *low);
        if (part == 1) {
          WriteBits(array_, i, RoundToBits(GetPartType(array_->type), x), 1);
        } else if (absl::Status s = SetNumber(i, x); !s.ok()) {
          return s;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::string_view rest_;
  const bool expected_;
  Array* array_ = nullptr;
  std::vector<bool>* ignored_ = nullptr;
};

}  // namespace

absl::StatusOr<Array> ParseArray(absl::string_view text, bool need_values) {
  Reader reader(text, /*expected=*/false);
  Array array;
  if (absl::Status s = reader.ReadShape(&array); !s.ok()) return s;
  if (reader.AtEnd() && !need_values) return array;
  std::vector<bool> ignored;
  if (absl::Status s = reader.ReadValues(&array, &ignored); !s.ok()) return s;
  if (!reader.AtEnd()) return Bad("what follows the literal is not understood: '", reader.rest(), "'");
  return array;
}

absl::StatusOr<Expected> ParseExpected(absl::string_view text, bool need_values) {
  Reader reader(text, /*expected=*/true);
  Expected e;
  if (absl::Status s = reader.ReadShape(&e.value); !s.ok()) return s;
  if (reader.AtEnd() && !need_values) {
    e.kind = Expected::kAny;
    return e;
  }
  if (reader.Take("any")) {
    e.kind = Expected::kAny;
  } else if (reader.AtWord("uniform") || reader.AtWord("normal")) {
    e.kind = reader.Take("uniform") ? Expected::kUniform : Expected::kNormal;
    if (e.kind == Expected::kNormal) reader.Take("normal");
    const absl::StatusOr<double> low = reader.ReadNumber(), high = reader.ReadNumber();
    if (!low.ok() || !high.ok()) return Bad("expected 'uniform LOW HIGH' or 'normal MEAN DEVIATION'");
    if (Info(e.value.type).cls == C::kComplex || Info(e.value.type).cls == C::kPred) {
      return Bad("no distribution over ", Info(e.value.type).name);
    }
    e.low = *low, e.high = *high;
  } else if (absl::Status s = reader.ReadValues(&e.value, &e.ignored); !s.ok()) {
    return s;
  }
  if (e.kind == Expected::kValues && reader.Take("within")) {
    do {
      double* field = reader.Take("ulp")   ? &e.tolerance.ulp
                      : reader.Take("abs") ? &e.tolerance.abs
                      : reader.Take("rel") ? &e.tolerance.rel
                                           : nullptr;
      if (field == nullptr)
        return Bad("expected 'ulp N', 'abs X' or 'rel X' after 'within', found '", reader.rest(), "'");
      const absl::StatusOr<double> x = reader.ReadNumber();
      if (!x.ok() || !(*x > 0)) return Bad("a tolerance is a positive number");
      *field = *x;
    } while (!reader.AtEnd());
    const C cls = Info(e.value.type).cls;
    if (e.tolerance.ulp > 0 && cls != C::kFloat && cls != C::kComplex) return Bad("'ulp' is for floats");
  }
  if (!reader.AtEnd()) return Bad("what follows the literal is not understood: '", reader.rest(), "'");
  return e;
}

}  // namespace backplane::conformance
