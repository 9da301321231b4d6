// The steps of a division that is rounded correctly: v_div_scale, v_div_fmas, v_div_fixup.
//
// Sources are the value to scale (the numerator or the denominator), the denominator and the numerator. The scaling
// keeps the quotient's iterations away from subnormals and overflow; the mask says that v_div_fmas has to undo it. The
// manuals print the condition for a large denominator with a subnormal quotient as a scaling by a positive power. That
// would overflow; scaling by the negative power is what makes the quotient right.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "plugins/hip/isa/operations/float_functions.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

template <class T>
struct DivisionLimits;
template <>
struct DivisionLimits<float> {
  static constexpr int kHugeQuotient = 96, kTinyNumerator = 23, kScale = 64, kUnderflow = -150, kBias = 127;
};
template <>
struct DivisionLimits<double> {
  static constexpr int kHugeQuotient = 768, kTinyNumerator = 53, kScale = 128, kUnderflow = -1075, kBias = 1023;
};

template <class T>
int BiasedExponent(T v) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<int>(std::bit_cast<uint32_t>(v) >> 23 & 0xff);
  } else {
    return static_cast<int>(std::bit_cast<uint64_t>(v) >> 52 & 0x7ff);
  }
}
template <class T>
bool IsSubnormal(T v) {
  return std::fpclassify(v) == FP_SUBNORMAL;
}

template <class T>
T ScaleForDivision(T value, T denominator, T numerator, bool& undo) {
  using L = DivisionLimits<T>;
  undo = false;
  if (numerator == 0 || denominator == 0) return std::numeric_limits<T>::quiet_NaN();
  const bool subnormal_inverse = IsSubnormal(T{1} / denominator),
             subnormal_quotient = IsSubnormal(numerator / denominator);
  if (BiasedExponent(numerator) - BiasedExponent(denominator) >= L::kHugeQuotient) {
    undo = true;
    return value == denominator ? std::ldexp(value, L::kScale) : value;
  }
  if (IsSubnormal(denominator)) return std::ldexp(value, L::kScale);
  if (subnormal_inverse && subnormal_quotient) {
    undo = true;
    return value == denominator ? std::ldexp(value, -L::kScale) : value;
  }
  if (subnormal_inverse) return std::ldexp(value, -L::kScale);
  if (subnormal_quotient) {
    undo = true;
    return value == numerator ? std::ldexp(value, L::kScale) : value;
  }
  if (BiasedExponent(numerator) <= L::kTinyNumerator) return std::ldexp(value, L::kScale);
  return value;
}

// The scaling is part of the fused operation, which rounds once: a quotient that becomes subnormal would be wrong
// otherwise. 113 bits hold the product exactly, and enough of the sum.
template <class T>
T FmaForDivision(T a, T b, T c, bool undo) {
  using L = DivisionLimits<T>;
  if (!undo) return std::fma(a, b, c);
  const __float128 scale = std::ldexp(1.0, BiasedExponent(c) > L::kBias ? L::kScale : -L::kScale);
  return static_cast<T>((static_cast<__float128>(a) * b + c) * scale);
}

template <class T>
T FixDivision(T quotient, T denominator, T numerator) {
  using L = DivisionLimits<T>;
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  auto with_sign = [negative](T v) { return negative ? -v : v; };
  if (std::isnan(numerator)) return numerator + numerator;
  if (std::isnan(denominator)) return denominator + denominator;
  if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator))) {
    return -std::numeric_limits<T>::quiet_NaN();
  }
  if (denominator == 0 || std::isinf(numerator)) return with_sign(std::numeric_limits<T>::infinity());
  if (std::isinf(denominator) || numerator == 0) return with_sign(T{0});
  if (BiasedExponent(numerator) - BiasedExponent(denominator) < L::kUnderflow) return with_sign(T{0});
  if (std::isnan(quotient)) return with_sign(std::numeric_limits<T>::infinity());  // the iterations overflowed
  return with_sign(std::fabs(quotient));
}

inline Half FixHalfDivision(Half q, Half d, Half n) {
  const bool negative = std::signbit(d.v) != std::signbit(n.v);
  auto with_sign = [negative](float v) { return Half{negative ? -v : v}; };
  if (std::isnan(n.v)) return n;
  if (std::isnan(d.v)) return d;
  if ((d.v == 0 && n.v == 0) || (std::isinf(d.v) && std::isinf(n.v))) return {-std::numeric_limits<float>::quiet_NaN()};
  if (d.v == 0 || std::isinf(n.v)) return with_sign(std::numeric_limits<float>::infinity());
  if (std::isinf(d.v) || n.v == 0) return with_sign(0);
  return with_sign(std::fabs(q.v));
}

constexpr Operation kVectorDivision[] = {
    Lanes<[](float v, float d, float n, bool& undo) { return ScaleForDivision(v, d, n, undo); }>("v_div_scale_f32"),
    Lanes<[](double v, double d, double n, bool& undo) { return ScaleForDivision(v, d, n, undo); }>("v_div_scale_f64"),
    LanesByVcc<[](float a, float b, float c, bool undo) { return FmaForDivision(a, b, c, undo); }>("v_div_fmas_f32"),
    LanesByVcc<[](double a, double b, double c, bool undo) { return FmaForDivision(a, b, c, undo); }>("v_div_fmas_f64"),
    Lanes<[](float q, float d, float n) { return FixDivision(q, d, n); }>("v_div_fixup_f32"),
    Lanes<[](double q, double d, double n) { return FixDivision(q, d, n); }>("v_div_fixup_f64"),
    KeepUpperHalf(Lanes<[](Half q, Half d, Half n) { return FixHalfDivision(q, d, n); }>("v_div_fixup_f16")),
};

}  // namespace

absl::Span<const Operation> VectorDivision() { return kVectorDivision; }

}  // namespace backplane::hip::isa
