// Shape rules and cost of elementwise unary operations.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

bool UnaryTakes(Opcode o, PrimitiveType t) {
  const bool is_float = IsFloat(t), complex = IsComplex(t), integral = IsIntegral(t), pred = t == PrimitiveType::kPred;
  switch (o) {
    case Opcode::kCeil:
    case Opcode::kFloor:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kErf:
    case Opcode::kIsFinite:
      return is_float;
    case Opcode::kClz:
    case Opcode::kPopcnt:
      return integral;
    case Opcode::kNot:
      return integral || pred;
    case Opcode::kAbs:
    case Opcode::kNegate:
    case Opcode::kSign:
      return integral || is_float || complex;
    default:
      return is_float || complex;
  }
}

}  // namespace

absl::StatusOr<Shape> InferUnary(const OpContext& op) {
  RETURN_IF_ERROR(WantArrays(op));
  const Shape& x = op.operand(0);
  if (!UnaryTakes(op.opcode, x.element_type())) {
    return Fail(op, Label(op, "i1"), "does not take element type ", Name(x.element_type()));
  }
  Shape result = x.WithoutLayout();
  switch (op.opcode) {
    case Opcode::kAbs:
    case Opcode::kReal:
    case Opcode::kImag:
      result.set_element_type(ComplexPart(x.element_type()));
      break;
    case Opcode::kIsFinite:
      result.set_element_type(PrimitiveType::kPred);
      break;
    default:
      break;
  }
  return result;
}

Cost CostUnary(const OpContext& op, const Shape& result) {
  switch (op.opcode) {
    case Opcode::kCbrt:
    case Opcode::kCos:
    case Opcode::kCosh:
    case Opcode::kErf:
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kLogistic:
    case Opcode::kRsqrt:
    case Opcode::kSin:
    case Opcode::kSqrt:
    case Opcode::kTan:
    case Opcode::kTanh: {
      Cost cost = ElementCost(op, result, 0);
      cost.transcendentals = ElementCount(result);
      return cost;
    }
    default:
      return ElementCost(op, result, 1);
  }
}

}  // namespace backplane
