// The values of arguments and constants.
#include <cmath>
#include <limits>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

double Special(Random& random, PrimitiveType part) {
  const double max = MaxFinite(part), tiny = ComputeUnitInLastPlace(part, 0);
  switch (random.Below(12)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return -std::numeric_limits<double>::infinity();
    case 3:
    case 4:
      return -0.0;
    case 5:
      return 0.0;
    case 6:
      return max;
    case 7:
      return -max;
    case 8:
      return tiny;
    case 9:
      return -3 * tiny;
    case 10:
      return tiny / GetEpsilon(part);  // the smallest normal number
    default:
      return 1 - GetEpsilon(part);
  }
}

double Real(Random& random, Fill fill, PrimitiveType part) {
  switch (fill) {
    case Fill::kWhole:
      // Sometimes halfway between two, so that rounding has ties.
      return static_cast<double>(random.Between(-4, 4)) + (random.Chance(15) ? 0.5 : 0.0);
    case Fill::kPositive:
      return std::exp2(random.Unit() * 4 - 2);
    case Fill::kSpecial:
      if (random.Chance(25)) return Special(random, part);
      [[fallthrough]];
    default:
      return random.Unit() * 4 - 2;
  }
}

// Converts the elements by the evaluator's conversion: NaN if the type has no infinity.
void Set(Literal& l, int64_t i, std::complex<double> v) {
  if (l.shape().element_type() == PrimitiveType::kC64) {
    l.mutable_data<std::complex<float>>()[static_cast<size_t>(i)] = {static_cast<float>(v.real()),
                                                                     static_cast<float>(v.imag())};
  } else if (l.shape().element_type() == PrimitiveType::kC128) {
    l.mutable_data<std::complex<double>>()[static_cast<size_t>(i)] = v;
  } else {
    l.SetFromDouble(i, v.real());
  }
}

void FillMatrices(Random& random, Literal& l, bool definite) {
  const Shape& shape = l.shape();
  const PrimitiveType type = shape.element_type();
  const int64_t n = shape.dimensions(shape.rank() - 1), rows = shape.dimensions(shape.rank() - 2);
  if (shape.num_elements() == 0) return;
  for (int64_t b = 0; b < shape.num_elements() / (n * rows); ++b) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        const double size = 0.5 / static_cast<double>(n);
        const double imaginary = IsComplex(type) ? (random.Unit() * 2 - 1) * size : 0.0;
        std::complex<double> v((random.Unit() * 2 - 1) * size, imaginary);
        if (r == c) v = 1 + random.Unit();
        if (definite && c < r) {
          // Read back, so that both parts agree after rounding.
          const int64_t other = b * n * rows + c * n + r;
          v = IsComplex(type) ? std::conj(l.GetAsComplex(other)) : l.GetAsDouble(other);
        }
        Set(l, b * n * rows + r * n + c, v);
      }
    }
  }
}

}  // namespace

Literal MakeValues(Random& random, const Shape& shape, Fill fill) {
  Literal l(shape);
  const PrimitiveType type = shape.element_type();
  const int64_t n = l.num_elements();
  if (IsFloat(ComplexPart(type))) {
    if ((fill == Fill::kDefinite || fill == Fill::kTriangular) && shape.rank() >= 2) {
      FillMatrices(random, l, fill == Fill::kDefinite);
      return l;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double re = Real(random, fill, ComplexPart(type));
      Set(l, i, {re, IsComplex(type) ? Real(random, fill, ComplexPart(type)) : 0.0});
    }
    return l;
  }
  const int bits = type == PrimitiveType::kPred ? 1 : BitWidth(type);
  const bool wide = bits <= 4 || fill == Fill::kWide || fill == Fill::kSpecial;
  for (int64_t i = 0; i < n; ++i) {
    int64_t v;
    if (type == PrimitiveType::kPred) {
      v = random.Below(2);
    } else if (wide) {
      const uint64_t ones = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
      uint64_t u = random.Bits() & ones;
      if (random.Chance(20)) u = random.Chance(50) ? uint64_t{1} << (bits - 1) : (uint64_t{1} << (bits - 1)) - 1;
      if (random.Chance(10)) u = random.Chance(50) ? 0 : ones;
      // Sign extension to the wide number.
      v = IsSigned(type) ? static_cast<int64_t>(u << (64 - bits)) >> (64 - bits) : static_cast<int64_t>(u);
    } else {
      v = IsUnsigned(type) ? random.Between(0, 8) : random.Between(fill == Fill::kPositive ? 1 : -5, 7);
    }
    l.SetFromInt(i, v);
  }
  return l;
}

}  // namespace backplane::cli::fuzz
