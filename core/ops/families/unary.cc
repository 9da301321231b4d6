// Shape rules and cost of elementwise unary operations.
#include "core/ops/families/checks.h"

namespace backplane {
absl::StatusOr<Shape> InferUnary(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape& x = op.operand(0);
  if (!Includes(*Info(op.opcode).operand_types, x.element_type())) {
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
  if (!Info(op.opcode).Has(kTranscendental)) return ElementCost(op, result, 1);
  Cost cost = ElementCost(op, result, 0);
  cost.transcendentals = ElementCount(result);
  return cost;
}

}  // namespace backplane
