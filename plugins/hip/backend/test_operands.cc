#include "plugins/hip/backend/test_operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/types/float_format.h"
#include "core/types/numeric.h"

namespace backplane::hip {
namespace {

// Sums of more terms have zeros among them, so that the wide elements can keep their bits.
constexpr int64_t kMostTerms = 4096;
// Sums of 16-bit elements are counted in fewer bits than f32 has, because matrix units align terms to the largest one
// and drop bits below the last one of f32.
constexpr int kBitsOfMatrixUnits = 22;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t Next() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }

 private:
  uint64_t state_;
};

int64_t CountTerms(const MatrixProduct& p) { return std::min(p.k, kMostTerms); }

// The bits by which a sum may be longer than a term. The signs are random, so ten times the root of the number of terms
// is out of reach.
int CountSumBits(const MatrixProduct& p) {
  const double terms = static_cast<double>(CountTerms(p));
  return static_cast<int>(std::ceil(std::log2(std::min(terms, 10 * std::sqrt(terms)))));
}

int CountSignificantBits(PrimitiveType type) { return GetFloatFormat(type).mantissa_bits + 1; }

// The exponent that keeps sums of f16 in its range.
int FindExponent(const MatrixProduct& p) {
  if (p.out_type != PrimitiveType::kF16) return 0;
  return std::min(0, 15 - CountWideBits(p) - CountSumBits(p));
}

template <typename T, typename Convert>
std::string Generate(int64_t count, const Convert& next) {
  std::string bytes(static_cast<size_t>(count) * sizeof(T), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const T value = next();
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

// Returns the bits of a number, rounded to zero for bf16.
uint16_t NarrowBits(PrimitiveType type, double value) {
  const float f = static_cast<float>(value);
  if (type == PrimitiveType::kF16) return FloatToHalfBits(f);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
int64_t FirstDifference(absl::Span<const char> a, absl::Span<const char> b, T sign, T exponent) {
  const size_t count = a.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T x = 0, y = 0;
    std::memcpy(&x, a.data() + i * sizeof(T), sizeof x);
    std::memcpy(&y, b.data() + i * sizeof(T), sizeof y);
    const T magnitude = static_cast<T>(x & static_cast<T>(~sign));
    if (exponent != 0 && magnitude > exponent) return static_cast<int64_t>(i);  // no number
    const bool zeros = magnitude == 0 && static_cast<T>(y & static_cast<T>(~sign)) == 0;
    if (x != y && !zeros) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace

int CountWideBits(const MatrixProduct& p) {
  if (p.sum_type == PrimitiveType::kS32) return 0;
  const int operand = p.rounds_to_tf32 ? 11 : CountSignificantBits(p.type);
  const bool by_units = ByteWidth(p.type) == 2 || p.rounds_to_tf32;
  const int sum = by_units ? kBitsOfMatrixUnits : CountSignificantBits(p.sum_type);
  return std::min(operand, sum - CountSumBits(p));
}

std::string MakeTestOperand(const MatrixProduct& p, int64_t elements, TestRole role, uint64_t seed) {
  const int64_t count = std::min(elements, kTestPeriod);
  Random random(seed);
  if (p.type == PrimitiveType::kS8)
    return Generate<int8_t>(count, [&] { return static_cast<int8_t>(random.Next() >> 56); });
  const int bits = CountWideBits(p);
  const double scale = std::ldexp(1.0, role == TestRole::kWide ? FindExponent(p) : 0);
  const double density = static_cast<double>(CountTerms(p)) / static_cast<double>(p.k);
  const uint64_t limit = density >= 1 ? ~uint64_t{0} : static_cast<uint64_t>(std::ldexp(density, 63)) * 2;
  const auto next = [&]() -> double {
    const uint64_t r = random.Next();
    const double sign = (r & 1) != 0 ? -1 : 1;
    if (role == TestRole::kUniform) return sign * std::ldexp(static_cast<double>(r >> 11), -53);
    if (role == TestRole::kNarrow) return random.Next() <= limit ? sign : 0;
    const uint64_t high = uint64_t{1} << (bits - 1);
    return sign * static_cast<double>(high | ((r >> 8) & (high - 1)) | 1) * scale;
  };
  switch (p.type) {
    case PrimitiveType::kF32:
      return Generate<float>(count, [&] { return static_cast<float>(next()); });
    case PrimitiveType::kF64:
      return Generate<double>(count, next);
    default:
      return Generate<uint16_t>(count, [&] { return NarrowBits(p.type, next()); });
  }
}

int64_t FindDifference(PrimitiveType type, absl::Span<const char> a, absl::Span<const char> b) {
  switch (type) {
    case PrimitiveType::kF16:
      return FirstDifference<uint16_t>(a, b, 0x8000, 0x7C00);
    case PrimitiveType::kBF16:
      return FirstDifference<uint16_t>(a, b, 0x8000, 0x7F80);
    case PrimitiveType::kF32:
      return FirstDifference<uint32_t>(a, b, 0x80000000u, 0x7F800000u);
    case PrimitiveType::kF64:
      return FirstDifference<uint64_t>(a, b, uint64_t{1} << 63, uint64_t{0x7FF} << 52);
    default:
      return FirstDifference<uint32_t>(a, b, 0, 0);
  }
}

}  // namespace backplane::hip
