#include "plugins/hip/backend/collective_operands.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace backplane::hip {
namespace {

using Reducer = ArrayCollective::Reducer;

// The splitmix64 generator at a position of its sequence, so that elements do not depend on one another.
uint64_t RandomBits(uint64_t position) {
  uint64_t z = (position + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct FloatFormat {
  int bits = 0;  // of the mantissa, with the first
  bool is_narrow = false;
};
FloatFormat FormatOf(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF16:
      return {11, true};
    case PrimitiveType::kBF16:
      return {8, true};
    case PrimitiveType::kF32:
      return {24, false};
    case PrimitiveType::kF64:
      return {53, false};
    default:
      return {};
  }
}

double MakeExact(const ArrayCollective& c, const FloatFormat& format, int64_t member, int64_t element, uint64_t r) {
  const double sign = (r & 1) != 0 ? -1 : 1;
  switch (c.reducer) {
    case Reducer::kProduct:
      // A power of two; at most a few factors differ from 1.
      return element % c.members == member ? sign * std::ldexp(1.0, static_cast<int>(r >> 1 & 7) - 3) : sign;
    case Reducer::kMaximum:
    case Reducer::kMinimum:
      if (element % 5 == 4 && (element / 5) % c.members == member) return std::numeric_limits<double>::quiet_NaN();
      return sign * static_cast<double>(1 + (r >> 8) % 100);
    default:
      break;
  }
  const double unit = std::ldexp(1.0, format.bits);
  if (format.is_narrow && element % 2 == 1) {
    // One member has a number whose neighbours are two apart, the others have 1: each of their sums would be rounded
    // back to the large one.
    return (element / 2) % c.members == member ? unit : 1;
  }
  const int spare = static_cast<int>(std::ceil(std::log2(static_cast<double>(c.members)))) + 1;
  const int64_t most = int64_t{1} << std::max(1, format.bits - spare);
  return sign * static_cast<double>(static_cast<int64_t>(r >> 8) & (most - 1));
}

// Conversion of numbers that the type represents, and of others by truncation.
uint16_t ToNarrow(PrimitiveType type, double value) {
  const float f = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof bits);
  if (type == PrimitiveType::kBF16) return static_cast<uint16_t>(bits >> 16);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value)) return sign | 0x7E00;
  const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127 + 15;
  if (exponent <= 0) return sign;
  return static_cast<uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3FF));
}

template <typename Word>
bool IsNoNumber(Word word, Word infinity) {
  return (word & std::numeric_limits<std::make_signed_t<Word>>::max()) > infinity;
}

template <typename Word>
int64_t FindMismatchOfWords(absl::string_view a, absl::string_view b, Word infinity) {
  constexpr Word kSign = Word{1} << (8 * sizeof(Word) - 1);
  for (size_t at = 0; at + sizeof(Word) <= a.size(); at += sizeof(Word)) {
    Word x = 0, y = 0;
    std::memcpy(&x, a.data() + at, sizeof x);
    std::memcpy(&y, b.data() + at, sizeof y);
    if (x == y) continue;
    const bool zeros = infinity != 0 && ((x | y) & static_cast<Word>(~kSign)) == 0;
    const bool no_numbers = infinity != 0 && IsNoNumber(x, infinity) && IsNoNumber(y, infinity);
    if (!zeros && !no_numbers) return static_cast<int64_t>(at / sizeof(Word));
  }
  return -1;
}

}  // namespace

std::string MakeCollectiveOperand(const ArrayCollective& c, int64_t member, CollectiveTest test) {
  const int64_t elements = c.count * c.operand_blocks();
  const size_t width = static_cast<size_t>(ByteWidth(c.type));
  std::string bytes(static_cast<size_t>(elements) * width, '\0');
  const FloatFormat format = FormatOf(c.type);
  for (int64_t e = 0; e < elements; ++e) {
    const uint64_t r = RandomBits(static_cast<uint64_t>(member * elements + e));
    char* const to = bytes.data() + static_cast<size_t>(e) * width;
    if (format.bits == 0) {
      std::memcpy(to, &r, width);
      continue;
    }
    const double value = test == CollectiveTest::kExact
                             ? MakeExact(c, format, member, e, r)
                             : ((r & 1) != 0 ? -1.0 : 1.0) * (1.0 + std::ldexp(static_cast<double>(r >> 11), -53));
    if (c.type == PrimitiveType::kF64) {
      std::memcpy(to, &value, width);
    } else if (c.type == PrimitiveType::kF32) {
      const float f = static_cast<float>(value);
      std::memcpy(to, &f, width);
    } else {
      const uint16_t narrow = ToNarrow(c.type, value);
      std::memcpy(to, &narrow, width);
    }
  }
  return bytes;
}

int64_t FindMismatch(PrimitiveType type, absl::string_view a, absl::string_view b) {
  switch (type) {
    case PrimitiveType::kF16:
      return FindMismatchOfWords<uint16_t>(a, b, 0x7C00);
    case PrimitiveType::kBF16:
      return FindMismatchOfWords<uint16_t>(a, b, 0x7F80);
    case PrimitiveType::kF32:
      return FindMismatchOfWords<uint32_t>(a, b, 0x7F800000u);
    case PrimitiveType::kF64:
      return FindMismatchOfWords<uint64_t>(a, b, uint64_t{0x7FF} << 52);
    default: {
      const size_t width = static_cast<size_t>(ByteWidth(type));
      const int64_t at = FindMismatchOfWords<uint8_t>(a, b, 0);
      return at < 0 ? at : at / static_cast<int64_t>(width);
    }
  }
}

}  // namespace backplane::hip
