// Shape rule and cost of custom calls.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

const Shape* Subshape(const Shape& shape, absl::Span<const int64_t> index) {
  const Shape* s = &shape;
  for (int64_t i : index) {
    if (!s->IsTuple() || i < 0 || i >= s->tuple_size()) return nullptr;
    s = &s->tuple_shapes(i);
  }
  return s;
}

}  // namespace

absl::StatusOr<Shape> InferCustom(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape result, WantDeclared(op));
  if (op.attrs->GetString(AttrId::kCustomCallTarget).empty())
    return Fail(op, "custom_call_i2", "the target's name is missing");
  const std::vector<Shape>& layouts = op.attrs->Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  if (!layouts.empty() && layouts.size() != op.operands.size()) {
    return Fail(op, "custom_call_layouts", layouts.size(), " operand layouts for ", op.operands.size(), " operands");
  }
  for (const OutputOperandAlias& a : op.attrs->Get<OutputOperandAliases>(AttrId::kOutputOperandAliases)) {
    const Shape* out = Subshape(result, a.output_index);
    const Shape* in = a.operand >= 0 && a.operand < static_cast<int64_t>(op.operands.size())
                          ? Subshape(*op.operands[a.operand], a.operand_index)
                          : nullptr;
    if (out == nullptr || in == nullptr || !SameTypeAndDims(*out, *in)) {
      return Fail(op, "custom_call_i7", "an output is aliased with operand ", a.operand, " of another type or none");
    }
  }
  return result;
}

Cost CostCustom(const OpContext& op, const Shape& result) { return ElementCost(op, result, 0); }

}  // namespace backplane
