// Shape rules and cost of elementwise operations on two or three operands.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::Status CheckComparison(const OpContext& op, PrimitiveType t) {
  if (!op.attrs->Has(AttrId::kDirection)) return Fail(op, "compare_i3", "the direction is missing");
  if (!op.attrs->Has(AttrId::kComparisonType)) return absl::OkStatus();
  auto type = op.attrs->GetEnum<ComparisonType>(AttrId::kComparisonType);
  bool good = false;
  switch (type) {
    case ComparisonType::kFloat:
      good = IsFloat(t) || IsComplex(t);
      break;
    case ComparisonType::kTotalOrder:
      good = IsFloat(t);
      break;
    case ComparisonType::kSigned:
      good = IsSigned(t);
      break;
    case ComparisonType::kUnsigned:
      good = IsUnsigned(t) || t == PrimitiveType::kPred;
      break;
  }
  if (good) return absl::OkStatus();
  return Fail(op, "compare_c3", "comparison type ", FormatEnum(AttrKind::EnumComparisonType, static_cast<int>(type)),
              " does not fit element type ", Name(t));
}

absl::StatusOr<Shape> InferSelect(const OpContext& op) {
  const Shape &pred = op.operand(0), &a = op.operand(1), &b = op.operand(2);
  if (pred.element_type() != PrimitiveType::kPred) {
    return Fail(op, "select_i1", "the selector must be of type pred, found ", pred.ToString());
  }
  if (!SameTypeAndDims(a, b)) {
    return Fail(op, "select_c2", "the two values differ: ", a.ToString(), " and ", b.ToString());
  }
  if (pred.rank() != 0 && !(a.IsArray() && SameDims(pred, a))) {
    return Fail(op, "select_c1", "the selector ", pred.ToString(), " is neither a scalar nor of the dims of ",
                a.ToString());
  }
  Shape result = a.WithoutLayout();
  if (a.IsArray()) {
    CopyDynamic(b, result);
    CopyDynamic(pred, result);
  }
  return result;
}

absl::StatusOr<Shape> InferClamp(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape &low = op.operand(0), &x = op.operand(1), &high = op.operand(2);
  if (low.rank() != 0 && !SameDims(low, x)) {
    return Fail(op, "clamp_c1", "min ", low.ToString(), " is neither a scalar nor of the dims of ", x.ToString());
  }
  if (high.rank() != 0 && !SameDims(high, x)) {
    return Fail(op, "clamp_c2", "max ", high.ToString(), " is neither a scalar nor of the dims of ", x.ToString());
  }
  if (low.element_type() != x.element_type() || high.element_type() != x.element_type()) {
    return Fail(op, "clamp_c3", "element types differ: ", low.ToString(), ", ", x.ToString(), ", ", high.ToString());
  }
  return x.WithoutLayout();
}

}  // namespace

absl::StatusOr<Shape> InferBinary(const OpContext& op) {
  if (op.opcode == Opcode::kSelect) return InferSelect(op);
  if (op.opcode == Opcode::kClamp) return InferClamp(op);
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape &a = op.operand(0), &b = op.operand(1);
  if (a.element_type() != b.element_type()) {
    return Fail(op, Label(op, "c1"), "element types differ: lhs ", a.ToString(), ", rhs ", b.ToString());
  }
  if (!SameDims(a, b)) {
    const std::string label = op.opcode == Opcode::kCompare ? "compare_c2" : Label(op, "c1");
    return Fail(op, label, "dims differ: lhs ", a.ToString(), ", rhs ", b.ToString());
  }
  // Compare, the one operation here whose line names no types, takes all.
  const std::optional<OperandTypes> types = Info(op.opcode).operand_types;
  if (types && !Includes(*types, a.element_type())) {
    return Fail(op, Label(op, "i1"), "does not take element type ", Name(a.element_type()));
  }
  Shape result = a.WithoutLayout();
  CopyDynamic(b, result);
  if (op.opcode == Opcode::kCompare) {
    RETURN_IF_ERROR(CheckComparison(op, a.element_type()));
    result.set_element_type(PrimitiveType::kPred);
  } else if (op.opcode == Opcode::kComplex) {
    result.set_element_type(GetComplexType(a.element_type()));
  }
  return result;
}

Cost CostBinary(const OpContext& op, const Shape& result) {
  if (Info(op.opcode).Has(kTranscendental)) {
    Cost cost = ElementCost(op, result, 0);
    cost.transcendentals = ElementCount(result);
    return cost;
  }
  return ElementCost(op, result, op.opcode == Opcode::kClamp ? 2 : 1);
}

}  // namespace backplane
