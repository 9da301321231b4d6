#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/types/literal.h"
#include "core/types/literal_convert.h"
#include "core/types/numeric.h"

namespace backplane {
namespace {

// Returns the width of the mantissa field of float formats whose NaNs have a payload, and 0 for all others.
int PayloadBits(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF64:
      return 52;
    case PrimitiveType::kF32:
      return 23;
    case PrimitiveType::kF16:
      return 10;
    case PrimitiveType::kBF16:
      return 7;
    case PrimitiveType::kF8E5M2:
      return 2;
    case PrimitiveType::kF8E4M3:
      return 3;
    case PrimitiveType::kF8E3M4:
      return 4;
    default:
      return 0;
  }
}

uint64_t RawBits(const std::byte* at, int width) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(width));
  return bits;
}

// Returns the number of decimal digits that distinguishes all values of a format: 1 + mantissa bits * log10 2, rounded
// up.
int MostDigits(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF64:
      return 17;
    case PrimitiveType::kF32:
      return 9;
    case PrimitiveType::kF16:
      return 5;
    case PrimitiveType::kBF16:
      return 4;
    case PrimitiveType::kF8E4M3FN:
    case PrimitiveType::kF8E4M3:
    case PrimitiveType::kF8E4M3FNUZ:
    case PrimitiveType::kF8E4M3B11FNUZ:
    case PrimitiveType::kF8E3M4:
    case PrimitiveType::kF6E2M3FN:
      return 3;
    default:
      return 2;
  }
}

// Prints a number independently of the locale, as XLA does: f32 and f64 with the digits that every decimal text
// preserves (6 and 15) if that parses to the value, else with all digits that may be needed; other formats always with
// all digits.
std::string FiniteText(PrimitiveType type, double value) {
  char buffer[64];
  auto print = [&](int digits) {
    return std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, digits).ptr;
  };
  const bool single = type == PrimitiveType::kF32;
  if (single || type == PrimitiveType::kF64) {
    const char* end = print(single ? 6 : 15);
    float narrow = 0;
    double wide = 0;
    if (single) {
      std::from_chars(buffer, end, narrow);
    } else {
      std::from_chars(buffer, end, wide);
    }
    if (single ? narrow == static_cast<float>(value) : wide == value)
      return std::string(buffer, static_cast<size_t>(end - buffer));
  }
  // More digits are needed where rounding is not to nearest (the smallest f8e8m0fnu).
  for (int digits = MostDigits(type);; ++digits) {
    const char* end = print(digits);
    double read = 0, rounded = 0;
    std::from_chars(buffer, end, read);
    std::byte storage[8] = {};
    WriteElements(type, storage, 0, 1, &read);
    ReadElements(type, storage, 0, 1, &rounded);
    if (rounded == value || digits >= 17) return std::string(buffer, static_cast<size_t>(end - buffer));
  }
}

std::string FloatText(PrimitiveType type, const std::byte* at) {
  double value;
  ReadElements(type, at, 0, 1, &value);
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (!std::isnan(value)) return FiniteText(type, value);
  const int width = ByteWidth(type);
  const uint64_t bits = RawBits(at, width);
  for (bool negative : {false, true}) {
    const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), negative ? -1.0 : 1.0);
    std::byte storage[8] = {};
    WriteElements(type, storage, 0, 1, &nan);
    if (RawBits(storage, width) == bits) return negative ? "-nan" : "nan";
  }
  const bool negative = (bits >> (width * 8 - 1)) & 1;
  return absl::StrFormat("%snan(0x%x)", negative ? "-" : "", bits & ((uint64_t{1} << PayloadBits(type)) - 1));
}

absl::Status BadNumber(absl::string_view text, PrimitiveType type) {
  return absl::InvalidArgumentError(absl::StrCat("literal: '", text.substr(0, 40), "' is no value of ", Name(type)));
}

// Parses "nan", "-nan", "nan(0x...)" into the bits of `at`. Returns false for any other text.
bool ParseNan(absl::string_view text, PrimitiveType type, std::byte* at) {
  const bool negative = absl::ConsumePrefix(&text, "-");
  if (!negative) absl::ConsumePrefix(&text, "+");
  if (!absl::ConsumePrefix(&text, "nan")) return false;
  const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), negative ? -1.0 : 1.0);
  WriteElements(type, at, 0, 1, &nan);
  if (text.empty()) return true;
  uint64_t payload = 0;
  const int bits = PayloadBits(type);
  if (bits == 0 || !absl::ConsumePrefix(&text, "(0x") || !absl::ConsumeSuffix(&text, ")") ||
      !absl::SimpleHexAtoi(text, &payload) || payload == 0 || payload >> bits) {
    return false;
  }
  const int width = ByteWidth(type);
  const uint64_t exponent = ((uint64_t{1} << (width * 8 - 1)) - 1) & ~((uint64_t{1} << bits) - 1);
  const uint64_t pattern = (negative ? uint64_t{1} << (width * 8 - 1) : 0) | exponent | payload;
  std::memcpy(at, &pattern, static_cast<size_t>(width));
  return true;
}

// Parses a decimal or 0x1.8p3 number or "inf". Consumes the whole text.
bool ParseDouble(absl::string_view text, PrimitiveType type, double* out) {
  bool negative = absl::ConsumePrefix(&text, "-");
  if (!negative) absl::ConsumePrefix(&text, "+");
  if (text == "inf") {
    *out = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  const bool hex = absl::ConsumePrefix(&text, "0x") || absl::ConsumePrefix(&text, "0X");
  if (text.empty() || !(absl::ascii_isxdigit(text[0]) || text[0] == '.')) return false;
  double value = 0;
  const char* end = text.data() + text.size();
  std::from_chars_result r{};
  if (type == PrimitiveType::kF32) {  // rounds the decimal only once
    float f = 0;
    r = std::from_chars(text.data(), end, f, hex ? std::chars_format::hex : std::chars_format::general);
    value = f;
  } else {
    r = std::from_chars(text.data(), end, value, hex ? std::chars_format::hex : std::chars_format::general);
  }
  if (r.ptr != end) return false;
  if (r.ec == std::errc::result_out_of_range) {
    // Out of range for the type: strtod returns the IEEE result.
    const std::string whole = absl::StrCat(hex ? "0x" : "", text);
    value = type == PrimitiveType::kF32 ? std::strtof(whole.c_str(), nullptr) : std::strtod(whole.c_str(), nullptr);
  } else if (r.ec != std::errc()) {
    return false;
  }
  *out = negative ? -value : value;
  return true;
}

absl::Status ParseFloat(absl::string_view text, PrimitiveType type, std::byte* at) {
  if (ParseNan(text, type, at)) return absl::OkStatus();
  double value;
  if (!ParseDouble(text, type, &value)) return BadNumber(text, type);
  WriteElements(type, at, 0, 1, &value);
  return absl::OkStatus();
}

absl::Status ParseInteger(absl::string_view text, PrimitiveType type, std::byte* at) {
  absl::string_view digits = text;
  const bool negative = absl::ConsumePrefix(&digits, "-");
  const bool hex = absl::ConsumePrefix(&digits, "0x") || absl::ConsumePrefix(&digits, "0X");
  uint64_t magnitude = 0;
  const std::from_chars_result r =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, hex ? 16 : 10);
  if (digits.empty() || r.ec != std::errc() || r.ptr != digits.data() + digits.size()) return BadNumber(text, type);
  const int bits = BitWidth(type);
  // Checks the largest magnitude of this sign. Hexadecimal text of a signed type may be its bit pattern.
  const uint64_t all = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t limit = IsUnsigned(type) ? (negative ? 0 : all) : negative ? all / 2 + 1 : hex ? all : all / 2;
  if (magnitude > limit) return BadNumber(text, type);
  const uint64_t value = negative ? ~magnitude + 1 : magnitude;
  WriteElements(type, at, 0, 1, &value);
  return absl::OkStatus();
}

void AppendArray(const Literal& literal, int64_t dim, int64_t& linear, std::string* out) {
  const Shape& shape = literal.shape();
  if (dim == shape.rank()) {
    if (shape.element_type() == PrimitiveType::kPred && shape.rank() > 0) {
      *out += literal.GetAsInt(linear) ? '1' : '0';
    } else {
      *out += ElementToString(literal, linear);
    }
    ++linear;
    return;
  }
  const bool spaced = shape.rank() > 1;
  *out += spaced ? "{ " : "{";
  for (int64_t i = 0; i < shape.dimensions(dim); ++i) {
    if (i > 0) *out += ", ";
    AppendArray(literal, dim + 1, linear, out);
  }
  *out += spaced ? " }" : "}";
}

}  // namespace

std::string ElementToString(const Literal& literal, int64_t linear) {
  const PrimitiveType type = literal.shape().element_type();
  const std::byte* at = literal.bytes() + linear * ByteWidth(type);
  if (type == PrimitiveType::kPred) return literal.GetAsInt(linear) ? "true" : "false";
  if (IsFloat(type)) return FloatText(type, at);
  if (IsComplex(type)) {
    const PrimitiveType part = ComplexPart(type);
    return absl::StrCat("(", FloatText(part, at), ", ", FloatText(part, at + ByteWidth(part)), ")");
  }
  if (type == PrimitiveType::kU64) return absl::StrCat(literal.data<uint64_t>()[linear]);
  return absl::StrCat(literal.GetAsInt(linear));
}

absl::Status ParseElement(absl::string_view text, Literal* literal, int64_t linear) {
  const PrimitiveType type = literal->shape().element_type();
  text = absl::StripAsciiWhitespace(text);
  if (!IsArrayType(type) || text.empty()) return BadNumber(text, type);
  std::byte* at = literal->mutable_bytes() + linear * ByteWidth(type);
  if (type == PrimitiveType::kPred) {
    if (text != "true" && text != "false" && text != "0" && text != "1") return BadNumber(text, type);
    *at = std::byte{static_cast<unsigned char>(text == "true" || text == "1")};
    return absl::OkStatus();
  }
  if (IsFloat(type)) return ParseFloat(text, type, at);
  if (!IsComplex(type)) return ParseInteger(text, type, at);
  const PrimitiveType part = ComplexPart(type);
  std::byte* imaginary = at + ByteWidth(part);
  absl::string_view inner = text;
  if (!absl::ConsumePrefix(&inner, "(")) {  // a real number without imaginary part
    std::memset(imaginary, 0, static_cast<size_t>(ByteWidth(part)));
    return ParseFloat(text, part, at);
  }
  const size_t comma = inner.find(',');
  if (comma == absl::string_view::npos || !absl::ConsumeSuffix(&inner, ")")) return BadNumber(text, type);
  if (absl::Status s = ParseFloat(absl::StripAsciiWhitespace(inner.substr(0, comma)), part, at); !s.ok()) return s;
  return ParseFloat(absl::StripAsciiWhitespace(inner.substr(comma + 1)), part, imaginary);
}

std::string Literal::ToString(int64_t limit) const {
  if (shape_.IsTuple()) {
    std::string out = "(";
    for (size_t i = 0; i < elements_.size(); ++i) {
      absl::StrAppend(&out, i > 0 ? ", " : " ", elements_[i].ToString(limit));
    }
    return out + (elements_.empty() ? ")" : " )");
  }
  if (!shape_.IsArray()) return shape_.ToString();
  if (num_elements() > limit) return "{...}";
  std::string out;
  int64_t linear = 0;
  AppendArray(*this, 0, linear, &out);
  return out;
}

}  // namespace backplane
