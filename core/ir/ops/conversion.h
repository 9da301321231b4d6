// Conversions between element types, and reinterpretation of bits.
#ifndef BACKPLANE_CORE_IR_OPS_CONVERSION_H_
#define BACKPLANE_CORE_IR_OPS_CONVERSION_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Returns the same memory with another shape, which must have as many bytes ([bitcast_c1]). HLO only: valid after
// layout assignment, when it is known that the memory is the same.
Result CreateBitcast(Builder& b, const Shape& shape, Value operand);
// Reinterprets the bits as another element type, both complex or both not ([bitcast_convert_c2]). A narrower type
// appends a dimension of size old width / new width. A wider type requires such a last dimension and removes it
// ([bitcast_convert_c1]).
Result BitcastConvertType(Builder& b, Value operand, PrimitiveType new_element_type);
// Converts each element. Floats are truncated and saturated to integers. A conversion to pred gives x != 0.
Result ConvertElementType(Builder& b, Value operand, PrimitiveType new_element_type);
// Rounds each float to a format with this number of exponent bits (>= 1, [reduce_precision_c2]) and mantissa bits (>=
// 0, [reduce_precision_c3]), to nearest with ties to even, and converts it back.
Result ReducePrecision(Builder& b, Value operand, int exponent_bits, int mantissa_bits);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_CONVERSION_H_
