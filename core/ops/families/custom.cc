// Shape rule and cost of custom calls.
#include "core/ops/families/checks.h"

namespace backplane {
absl::StatusOr<Shape> InferCustom(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape result, GetDeclaredShape(op));
  if (op.attrs->GetString(AttrId::kCustomCallTarget).empty())
    return Fail(op, "custom_call_i2", "the target's name is missing");
  const std::vector<Shape>& layouts = op.attrs->Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  if (!layouts.empty() && layouts.size() != op.operands.size()) {
    return Fail(op, "custom_call_layouts", layouts.size(), " operand layouts for ", op.operands.size(), " operands");
  }
  RETURN_IF_ERROR(CheckOutputAliases(op, result, "custom_call_i7"));
  return result;
}

Cost CostCustom(const OpContext& op, const Shape& result) { return ElementCost(op, result, 0); }

}  // namespace backplane
