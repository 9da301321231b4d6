// Shape rule and cost of custom calls.
#include <algorithm>

#include "core/ops/families/checks.h"

namespace backplane {
namespace {

template <size_t n>
bool Contains(const absl::string_view (&names)[n], absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Calls that only inform a compiler about a value are replaced by their operand, and those at the boundary of a manual
// region by a part of it, or by the array that it is a part of. Their users rely on the declared shape.
absl::Status CheckInformation(const OpContext& op, const Shape& result) {
  static constexpr absl::string_view kIdentities[] = {"Sharding", "ShardingGroup", "LayoutConstraint",
                                                      "annotate_device_placement"};
  static constexpr absl::string_view kBoundaries[] = {"SPMDFullToShardShape", "SPMDShardToFullShape"};
  const std::string& target = op.attrs->GetString(AttrId::kCustomCallTarget);
  if (op.operands.size() != 1) return absl::OkStatus();
  const Shape& x = op.operand(0);
  if (Contains(kIdentities, target) && !(result == x)) {
    return Fail(op, "custom_call_identity", "a call of ", target, " returns ", result.ToString(), " for ",
                x.ToString());
  }
  if (!Contains(kBoundaries, target) || result == x) return absl::OkStatus();
  if (!result.IsArray() || !x.IsArray() || result.element_type() != x.element_type() || result.rank() != x.rank()) {
    return Fail(op, "custom_call_boundary", "a call of ", target, " returns ", result.ToString(), " for ", x.ToString(),
                "; types and ranks must agree");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Shape> InferCustom(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape result, GetDeclaredShape(op));
  if (op.attrs->GetString(AttrId::kCustomCallTarget).empty())
    return Fail(op, "custom_call_i2", "the target's name is missing");
  const std::vector<Shape>& layouts = op.attrs->Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  if (!layouts.empty() && layouts.size() != op.operands.size()) {
    return Fail(op, "custom_call_layouts", layouts.size(), " operand layouts for ", op.operands.size(), " operands");
  }
  RETURN_IF_ERROR(CheckInformation(op, result));
  RETURN_IF_ERROR(CheckOutputAliases(op, result, "custom_call_i7"));
  return result;
}

Cost CostCustom(const OpContext& op, const Shape& result) { return ElementCost(op, result, 0); }

}  // namespace backplane
