// Shape rules and cost of batch normalization.
#include "core/ops/families/checks.h"

namespace backplane {

absl::StatusOr<Shape> InferNormalization(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape& x = op.operand(0);
  const int64_t feature = op.attrs->GetInt(AttrId::kFeatureIndex, -1);
  const bool grad = op.opcode == Opcode::kBatchNormGrad;
  if (feature < 0 || feature >= x.rank()) {
    return Fail(op, Label(op, "c1"), "feature index ", feature, " is not one of ", x.ToString());
  }
  if (!IsFloat(x.element_type()))
    return Fail(op, Label(op, "i1"), "does not take element type ", Name(x.element_type()));
  const Shape vector(x.element_type(), {x.dimensions(feature)});
  const size_t vectors = op.operands.size() - (grad ? 2 : 1);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Shape& s = op.operand(static_cast<int>(i));
    if (s.element_type() != x.element_type()) {
      return Fail(op, Label(op, "c2"), "element types differ: ", x.ToString(), " and ", s.ToString());
    }
    if (i >= 1 && i <= vectors && !SameDims(s, vector)) {
      static constexpr absl::string_view kTraining[] = {"batch_norm_training_c3", "batch_norm_training_c4"};
      static constexpr absl::string_view kInference[] = {"batch_norm_inference_c3", "batch_norm_inference_c4",
                                                         "batch_norm_inference_c5", "batch_norm_inference_c6"};
      static constexpr absl::string_view kGrad[] = {"batch_norm_grad_c5", "batch_norm_grad_c4", "batch_norm_grad_c4"};
      const absl::string_view label = grad                                       ? kGrad[i - 1]
                                      : op.opcode == Opcode::kBatchNormInference ? kInference[i - 1]
                                                                                 : kTraining[i - 1];
      return Fail(op, label, "operand ", i, " is ", s.ToString(), ", expected ", vector.ToString());
    }
  }
  if (grad && !SameDims(op.operand(4), x)) {
    return Fail(op, "batch_norm_grad_c3", "grad output ", op.operand(4).ToString(), " differs from ", x.ToString());
  }
  if (op.opcode == Opcode::kBatchNormInference) return x.WithoutLayout();
  return Shape::Tuple({x.WithoutLayout(), vector, vector});
}

Cost CostNormalization(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  cost.flops = (op.opcode == Opcode::kBatchNormInference ? 4 : 10) * ElementCount(op.operand(0));
  return cost;
}

}  // namespace backplane
