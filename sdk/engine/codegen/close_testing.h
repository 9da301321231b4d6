// Approximate equality of computed elements, for the tests of the engine.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_CLOSE_TESTING_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_CLOSE_TESTING_H_

#include <algorithm>
#include <cmath>

#include "core/types/literal.h"

namespace backplane::engine {

// Whether the numbers differ by at most `tolerance`, relative to the larger one, or to 1 if both are smaller. NaN is
// close to NaN only, and an infinity to itself only.
inline bool IsClose(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  return std::fabs(a - b) <= tolerance * std::max({std::fabs(a), std::fabs(b), 1.0});
}

// Compares element `i` of two arrays of one shape: floats and complex numbers by IsClose, others exactly.
inline bool IsElementClose(const Literal& a, const Literal& b, int64_t i, double tolerance) {
  const PrimitiveType type = a.shape().element_type();
  if (IsComplex(type)) {
    const auto x = a.GetAsComplex(i), y = b.GetAsComplex(i);
    return IsClose(x.real(), y.real(), tolerance) && IsClose(x.imag(), y.imag(), tolerance);
  }
  if (IsFloat(type)) return IsClose(a.GetAsDouble(i), b.GetAsDouble(i), tolerance);
  return a.GetAsInt(i) == b.GetAsInt(i);
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_CLOSE_TESTING_H_
