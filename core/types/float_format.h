// The numbers that describe a binary floating-point format.
#ifndef BACKPLANE_CORE_TYPES_FLOAT_FORMAT_H_
#define BACKPLANE_CORE_TYPES_FLOAT_FORMAT_H_

#include "core/types/primitive_type.h"

namespace backplane {

struct FloatFormat {
  int exponent_bits, mantissa_bits;
  int least;  // exponent of the smallest normal number, 2^least
};

// Returns zeros for a type that is not a float.
constexpr FloatFormat GetFloatFormat(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF64:
      return {11, 52, -1022};
    case PrimitiveType::kF32:
      return {8, 23, -126};
    case PrimitiveType::kBF16:
      return {8, 7, -126};
    case PrimitiveType::kF16:
      return {5, 10, -14};
    case PrimitiveType::kF8E5M2:
      return {5, 2, -14};
    case PrimitiveType::kF8E5M2FNUZ:
      return {5, 2, -15};
    case PrimitiveType::kF8E4M3:
    case PrimitiveType::kF8E4M3FN:
      return {4, 3, -6};
    case PrimitiveType::kF8E4M3FNUZ:
      return {4, 3, -7};
    case PrimitiveType::kF8E4M3B11FNUZ:
      return {4, 3, -10};
    case PrimitiveType::kF8E3M4:
      return {3, 4, -2};
    case PrimitiveType::kF6E3M2FN:
      return {3, 2, -2};
    case PrimitiveType::kF6E2M3FN:
      return {2, 3, 0};
    case PrimitiveType::kF4E2M1FN:
      return {2, 1, 0};
    case PrimitiveType::kF8E8M0FNU:
      return {8, 0, -127};
    default:
      return {0, 0, 0};
  }
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_FLOAT_FORMAT_H_
