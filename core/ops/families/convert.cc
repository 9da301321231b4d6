// Shape rules and cost of conversions between element types.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::StatusOr<Shape> InferBitcastConvert(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape to, GetDeclaredArrayShape(op));
  const Shape& from = op.operand(0);
  const PrimitiveType a = from.element_type(), b = to.element_type();
  if (IsComplex(a) != IsComplex(b)) {
    return Fail(op, "bitcast_convert_c2", "complex converts to complex only: ", from.ToString(), " to ", to.ToString());
  }
  const int wide_a = BitWidth(a), wide_b = BitWidth(b);
  DimVector dims = from.dimensions();
  if (wide_b < wide_a) {
    if (wide_a % wide_b != 0) return Fail(op, "bitcast_convert_c1", Name(a), " does not divide into ", Name(b));
    dims.push_back(wide_a / wide_b);
  } else if (wide_b > wide_a) {
    if (dims.empty() || wide_b % wide_a != 0 || dims.back() != wide_b / wide_a) {
      return Fail(op, "bitcast_convert_c1", "the last dimension of ", from.ToString(), " must be ", wide_b / wide_a,
                  " to become ", Name(b));
    }
    dims.pop_back();
  }
  return Shape(b, dims);
}

}  // namespace

absl::StatusOr<Shape> InferConvert(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape& from = op.operand(0);
  switch (op.opcode) {
    case Opcode::kBitcastConvert:
      return InferBitcastConvert(op);
    case Opcode::kBitcast: {
      ASSIGN_OR_RETURN(Shape to, GetDeclaredArrayShape(op));
      // Wide: 2^62 elements of half a byte have more than 2^63 bits.
      auto bits = [](const Shape& s) { return static_cast<__int128>(s.num_elements()) * BitWidth(s.element_type()); };
      if (bits(to) != bits(from)) {
        return Fail(op, "bitcast_c1", "sizes differ: ", from.ToString(), " to ", to.ToString());
      }
      return to.WithoutLayout();
    }
    case Opcode::kConvert: {
      ASSIGN_OR_RETURN(Shape to, GetDeclaredArrayShape(op));
      if (!SameDims(from, to)) return Fail(op, "convert_c1", "dims differ: ", from.ToString(), " to ", to.ToString());
      Shape result = from.WithElementType(to.element_type()).WithoutLayout();
      return result;
    }
    default:
      break;
  }
  if (!IsFloat(from.element_type())) {
    return Fail(op, "reduce_precision_i1", "does not take element type ", Name(from.element_type()));
  }
  const int64_t exponent = op.attrs->GetInt(AttrId::kExponentBits), mantissa = op.attrs->GetInt(AttrId::kMantissaBits);
  if (exponent < 1) return Fail(op, "reduce_precision_c2", "exponent bits must be at least 1, found ", exponent);
  if (mantissa < 0) return Fail(op, "reduce_precision_c3", "mantissa bits must not be negative, found ", mantissa);
  return from.WithoutLayout();
}

Cost CostConvert(const OpContext& op, const Shape& result) {
  return ElementCost(op, result, op.opcode == Opcode::kBitcast || op.opcode == Opcode::kBitcastConvert ? 0 : 1);
}

}  // namespace backplane
