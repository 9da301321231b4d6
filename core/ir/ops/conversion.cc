#include "core/ir/ops/conversion.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {

using internal::Fail;

Result CreateBitcast(Builder& b, const Shape& shape, Value operand) {
  return b.Op(Opcode::kBitcast, {operand}, {}, {}, shape);
}

Result BitcastConvertType(Builder& b, Value operand, PrimitiveType type) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kBitcastConvert, {operand}));
  if (!IsArrayType(type)) {
    return Fail(Opcode::kBitcastConvert, "bitcast_convert_declared", Name(type), " is no type of elements");
  }
  const int from = BitWidth(operand->shape().element_type()), to = BitWidth(type);
  DimVector dims = operand->shape().dimensions();
  if (to < from) dims.push_back(from / to);
  if (to > from && !dims.empty()) dims.pop_back();
  return b.Op(Opcode::kBitcastConvert, {operand}, {}, {}, Shape(type, dims));
}

Result ConvertElementType(Builder& b, Value operand, PrimitiveType type) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kConvert, {operand}));
  if (!IsArrayType(type)) return Fail(Opcode::kConvert, "convert_declared", Name(type), " is no type of elements");
  return b.Convert(operand, type);
}

Result ReducePrecision(Builder& b, Value operand, int exponent_bits, int mantissa_bits) {
  Attributes attrs;
  attrs.Set(AttrId::kExponentBits, int64_t{exponent_bits});
  attrs.Set(AttrId::kMantissaBits, int64_t{mantissa_bits});
  return b.Op(Opcode::kReducePrecision, {operand}, std::move(attrs));
}

}  // namespace backplane::hlo
