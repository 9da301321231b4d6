// Floating-point functions of lanes, by the ISA manuals.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_FLOAT_FUNCTIONS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_FLOAT_FUNCTIONS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "plugins/hip/isa/machine/lanes.h"

namespace backplane::hip::isa {

// A NaN yields to a number, and -0 is less than +0.
template <class T>
inline T ComputeMin(T a, T b) {
  if (std::isnan(a)) return std::isnan(b) ? a + b : b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
inline T ComputeMax(T a, T b) {
  if (std::isnan(a)) return std::isnan(b) ? a + b : b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
// The middle of three; with a NaN, the least.
template <class T>
inline T ComputeMedian(T a, T b, T c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return ComputeMin(ComputeMin(a, b), c);
  return ComputeMax(ComputeMin(a, b), ComputeMin(ComputeMax(a, b), c));
}

inline float FlushSubnormal(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v; }

// The transcendental unit has an error of 1 ulp and no subnormals, in or out. The results here are rounded correctly.
template <class F>
inline float Transcendental(float v, F f) {
  return FlushSubnormal(static_cast<float>(f(static_cast<double>(FlushSubnormal(v)))));
}

// The double-precision reciprocals are a table and one step: they have an error of up to 2^29 ulp, here one of 2^28.
// Code that expects more than the machines give is seen.
inline double WithTableAccuracy(double v) {
  if (!std::isfinite(v) || v == 0) return v;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(v) & ~((1ull << 28) - 1));
}

// The unit of the angle is a revolution.
inline double SineOfRevolutions(double v) {
  if (!std::isfinite(v)) return std::numeric_limits<double>::quiet_NaN();
  const double fraction = v - std::floor(v);
  if (fraction == 0 || fraction == 0.5) return std::copysign(0.0, v);
  return std::sin(fraction * 6.283185307179586476925);
}
inline double CosineOfRevolutions(double v) {
  if (!std::isfinite(v)) return std::numeric_limits<double>::quiet_NaN();
  const double fraction = v - std::floor(v);
  if (fraction == 0.25 || fraction == 0.75) return 0.0;
  return std::cos(fraction * 6.283185307179586476925);
}

template <class T>
inline T ComputeFraction(T v) {
  if (!std::isfinite(v)) return std::numeric_limits<T>::quiet_NaN();
  constexpr T kLargest = T{1} - std::numeric_limits<T>::epsilon() / 2;
  const T f = v - std::floor(v);
  return f < kLargest ? f : kLargest;
}
template <class T>
inline int ExponentForFrexp(T v) {
  int e = 0;
  if (std::isfinite(v)) std::frexp(v, &e);
  return e;
}
template <class T>
inline T MantissaForFrexp(T v) {
  int e = 0;
  return std::isfinite(v) ? std::frexp(v, &e) : v;
}

// Exact multiplication and addition with one rounding to half.
inline uint16_t FmaHalf(float a, float b, float c) {
  const double product = static_cast<double>(a) * b;  // exact
  const double sum = product + c;
  if (!std::isfinite(sum)) return ConvertDoubleToHalf(sum);
  // Rounding to odd keeps the second rounding correct: what the sum lost is nonzero, so its last bit becomes one.
  const double other = sum - product;
  const double lost = (product - (sum - other)) + (c - other);
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (lost != 0 && (bits & 1) == 0) {
    const bool away = (lost > 0) == !std::signbit(sum);
    bits = away ? bits + 1 : bits - 1;
  }
  return ConvertDoubleToHalf(std::bit_cast<double>(bits));
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_FLOAT_FUNCTIONS_H_
