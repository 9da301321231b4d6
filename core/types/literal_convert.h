// Element-wise conversion between storage forms, for Literal's accessors and HLO `convert`.
//
// Every element type widens exactly into one of four wide types: int64_t, uint64_t, double or complex<double>.
// Narrowing: integers wrap; floats round to nearest even, once; float to integer truncates, saturates, NaN becomes 0;
// complex to real keeps the real part; anything to pred is "differs from zero".
#ifndef BACKPLANE_CORE_TYPES_LITERAL_CONVERT_H_
#define BACKPLANE_CORE_TYPES_LITERAL_CONVERT_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/types/primitive_type.h"

namespace backplane {

// Wide: int64_t, uint64_t, double or std::complex<double>. `first` and `count` are in elements.
template <typename Wide>
void ReadElements(PrimitiveType type, const std::byte* data, int64_t first, int64_t count, Wide* out);
template <typename Wide>
void WriteElements(PrimitiveType type, std::byte* data, int64_t first, int64_t count, const Wide* in);

void ConvertElements(PrimitiveType from, const std::byte* source, PrimitiveType to, std::byte* target, int64_t count);

// Truncates toward zero, saturates at the ends of the range, and converts NaN to 0.
template <typename Int>
Int SaturateToInt(double v, Int lowest = std::numeric_limits<Int>::min(),
                  Int highest = std::numeric_limits<Int>::max()) {
  if (v != v) return 0;
  if (v <= static_cast<double>(lowest)) return lowest;
  if (v >= static_cast<double>(highest)) return highest;
  return static_cast<Int>(v);
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_LITERAL_CONVERT_H_
