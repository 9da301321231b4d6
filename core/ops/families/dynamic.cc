// Shape rules and cost of operations on dynamic sizes.
#include "core/ops/families/checks.h"

namespace backplane {

absl::StatusOr<Shape> InferDynamic(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  if (op.opcode == Opcode::kDynamicReshape) {
    ASSIGN_OR_RETURN(Shape to, GetDeclaredArrayShape(op));
    if (op.operands.empty()) return Fail(op, "dynamic_reshape_arity", "needs an operand");
    const Shape& x = op.operand(0);
    if (x.element_type() != to.element_type()) {
      return Fail(op, "dynamic_reshape_c1", "element types differ: ", x.ToString(), " to ", to.ToString());
    }
    if (!to.HasDynamicDimensions() && to.num_elements() != x.num_elements()) {
      return Fail(op, "dynamic_reshape_c2", "element counts differ: ", x.ToString(), " to ", to.ToString());
    }
    if (static_cast<int64_t>(op.operands.size()) != to.rank() + 1) {
      return Fail(op, "dynamic_reshape_c4", "has ", op.operands.size() - 1, " sizes, result rank is ", to.rank());
    }
    for (size_t i = 1; i < op.operands.size(); ++i) {
      const Shape& s = op.operand(static_cast<int>(i));
      if (!s.IsScalar() || !IsIntegral(s.element_type())) {
        return Fail(op, "dynamic_reshape_i2", "size ", i - 1, " must be an integer scalar, found ", s.ToString());
      }
    }
    return to;
  }
  const Shape& x = op.operand(0);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (dims.size() != 1 || dims[0] < 0 || dims[0] >= x.rank()) {
    return Fail(op, Label(op, "c1"), "dimension ", FormatDims(dims), " is not one of ", x.ToString());
  }
  if (op.opcode == Opcode::kGetDimensionSize) return Shape::Scalar(PrimitiveType::kS32);
  const Shape& size = op.operand(1);
  if (!size.IsScalar() || size.element_type() != PrimitiveType::kS32) {
    return Fail(op, "set_dimension_size_i2", "the size must be s32[], found ", size.ToString());
  }
  Shape result = x.WithoutLayout();
  result.set_dynamic(dims[0], true);
  return result;
}

Cost CostDynamic(const OpContext& op, const Shape& result) {
  return op.opcode == Opcode::kGetDimensionSize ? Cost{} : ElementCost(op, result, 0);
}

}  // namespace backplane
