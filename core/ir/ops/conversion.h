// Conversions between element types, and reinterpretation of bits.
#ifndef BACKPLANE_CORE_IR_OPS_CONVERSION_H_
#define BACKPLANE_CORE_IR_OPS_CONVERSION_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// The same memory under another shape of as many bytes, [bitcast_c1] otherwise. HLO level: only layout assignment and
// later passes know that the memory is the same.
Result CreateBitcast(Builder& b, const Shape& shape, Value operand);
// The same bits as another element type of the same kind (complex or not, [bitcast_convert_c2]). A narrower type
// appends a dimension of size old width / new width; a wider one needs such a last dimension and drops it
// ([bitcast_convert_c1]).
Result BitcastConvertType(Builder& b, Value operand, PrimitiveType new_element_type);
// Each element converted; the operand's dimensions. To integers truncates and saturates; to pred is != 0.
Result ConvertElementType(Builder& b, Value operand, PrimitiveType new_element_type);
// Each float rounded to the nearest of a format with so many exponent bits (>= 1, [reduce_precision_c2]) and mantissa
// bits
// (>= 0, [reduce_precision_c3]), ties to even, and back.
Result ReducePrecision(Builder& b, Value operand, int exponent_bits, int mantissa_bits);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_CONVERSION_H_
