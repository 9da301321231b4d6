// Shape rules and cost of dot, ragged dot and scaled dot.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

bool AreClose(PrimitiveType a, PrimitiveType b) {  // one kind of number on both sides
  auto integral = [](PrimitiveType t) { return IsIntegral(t) || t == PrimitiveType::kPred; };
  return (integral(a) && integral(b)) || (IsFloat(a) && IsFloat(b)) || (IsComplex(a) && IsComplex(b)) ||
         (IsFloat(a) && IsIntegral(b)) || (IsIntegral(a) && IsFloat(b));
}

absl::Status CheckDims(const OpContext& op, const DotDimensions& d, const Shape& lhs, const Shape& rhs,
                       absl::Span<const int64_t> ragged, absl::Span<const int64_t> group) {
  if (d.lhs_batch.size() != d.rhs_batch.size()) {
    return Fail(op, Label(op, "c1"), "batch dims differ in number: ", FormatDims(d.lhs_batch), " and ",
                FormatDims(d.rhs_batch));
  }
  if (d.lhs_contracting.size() != d.rhs_contracting.size()) {
    return Fail(op, Label(op, "c2"), "contracting dims differ in number: ", FormatDims(d.lhs_contracting), " and ",
                FormatDims(d.rhs_contracting));
  }
  Ints l = d.lhs_batch, r = d.rhs_batch;
  l.insert(l.end(), d.lhs_contracting.begin(), d.lhs_contracting.end());
  r.insert(r.end(), d.rhs_contracting.begin(), d.rhs_contracting.end());
  r.insert(r.end(), group.begin(), group.end());
  if (!IsUnique(l)) return Fail(op, Label(op, "c3"), "lhs batch and contracting dims repeat: ", FormatDims(l));
  if (!IsUnique(r)) return Fail(op, Label(op, "c4"), "rhs batch and contracting dims repeat: ", FormatDims(r));
  if (!AllInRange(d.lhs_batch, 0, lhs.rank())) {
    return Fail(op, Label(op, "c5"), "batch dims ", FormatDims(d.lhs_batch), " lie outside lhs ", lhs.ToString());
  }
  if (!AllInRange(d.lhs_contracting, 0, lhs.rank())) {
    return Fail(op, Label(op, "c6"), "contracting dims ", FormatDims(d.lhs_contracting), " lie outside lhs ",
                lhs.ToString());
  }
  if (!AllInRange(d.rhs_batch, 0, rhs.rank())) {
    return Fail(op, Label(op, "c7"), "batch dims ", FormatDims(d.rhs_batch), " lie outside rhs ", rhs.ToString());
  }
  if (!AllInRange(d.rhs_contracting, 0, rhs.rank())) {
    return Fail(op, Label(op, "c8"), "contracting dims ", FormatDims(d.rhs_contracting), " lie outside rhs ",
                rhs.ToString());
  }
  for (size_t i = 0; i < d.lhs_batch.size(); ++i) {
    const int64_t a = d.lhs_batch[i], b = d.rhs_batch[i];
    if (lhs.dimensions(a) != rhs.dimensions(b)) {
      return Fail(op, Label(op, "c9"), "batch dims differ: lhs ", lhs.ToString(), " dim ", a, " is ", lhs.dimensions(a),
                  ", rhs ", rhs.ToString(), " dim ", b, " is ", rhs.dimensions(b));
    }
  }
  for (size_t i = 0; i < d.lhs_contracting.size(); ++i) {
    const int64_t a = d.lhs_contracting[i], b = d.rhs_contracting[i];
    if (lhs.dimensions(a) != rhs.dimensions(b)) {
      return Fail(op, Label(op, "c10"), "contracting dims differ: lhs ", lhs.ToString(), " dim ", a, " is ",
                  lhs.dimensions(a), ", rhs ", rhs.ToString(), " dim ", b, " is ", rhs.dimensions(b));
    }
  }
  if (!AreClose(lhs.element_type(), rhs.element_type())) {
    return Fail(op, Label(op, "c13"), "element types do not multiply: ", lhs.ToString(), " and ", rhs.ToString());
  }
  return absl::OkStatus();
}

DimVector ResultDims(const DotDimensions& d, const Shape& lhs, const Shape& rhs, absl::Span<const int64_t> group) {
  DimVector dims;
  for (int64_t i : d.lhs_batch) dims.push_back(lhs.dimensions(i));
  for (int64_t i = 0; i < lhs.rank(); ++i) {
    if (!Contains(d.lhs_batch, i) && !Contains(d.lhs_contracting, i)) dims.push_back(lhs.dimensions(i));
  }
  for (int64_t i = 0; i < rhs.rank(); ++i) {
    if (!Contains(d.rhs_batch, i) && !Contains(d.rhs_contracting, i) && !Contains(group, i))
      dims.push_back(rhs.dimensions(i));
  }
  return dims;
}

absl::StatusOr<PrimitiveType> ResultType(const OpContext& op, PrimitiveType lhs, PrimitiveType rhs) {
  if (op.declared == nullptr) {
    if (lhs == rhs) return lhs;
    return Fail(op, Label(op, "declared"), "operands differ in type and no result type is given");
  }
  if (!op.declared->IsArray()) return Fail(op, Label(op, "result"), "the result must be an array");
  const PrimitiveType t = op.declared->element_type();
  const bool good = t == lhs || (IsComplex(lhs) == IsComplex(t) && !(IsFloat(lhs) && !IsFloat(t)));
  if (!good)
    return Fail(op, Label(op, "c13"), "element type ", Name(t), " cannot hold products of ", Name(lhs), " and ",
                Name(rhs));
  return t;
}

absl::Status CheckPrecision(const OpContext& op, absl::string_view label) {
  const Precisions& precision = op.attrs->Get<Precisions>(AttrId::kOperandPrecision);
  if (precision.empty() || precision.size() == 2) return absl::OkStatus();
  return Fail(op, label, "operand precision has ", precision.size(), " entries, expected 2");
}

// Types and counts of an algorithm. HLO also takes it with a precision other than the default (unlike StableHLO's c21).
absl::Status CheckAlgorithm(const OpContext& op) {
  if (!op.attrs->Has(AttrId::kDotAlgorithm)) return absl::OkStatus();
  const DotAlgorithm& a = op.attrs->Get<DotAlgorithm>(AttrId::kDotAlgorithm);
  if (a.lhs_components <= 0)
    return Fail(op, "dot_c22", "an algorithm needs a positive number of lhs components, found ", a.lhs_components);
  if (a.rhs_components <= 0)
    return Fail(op, "dot_c23", "an algorithm needs a positive number of rhs components, found ", a.rhs_components);
  if (a.primitive_operations <= 0) {
    return Fail(op, "dot_c24", "an algorithm needs a positive number of operations, found ", a.primitive_operations);
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> InferRagged(const OpContext& op) {
  const Shape &lhs = op.operand(0), &rhs = op.operand(1), &groups = op.operand(2);
  const RaggedDotDimensions& d = op.attrs->Get<RaggedDotDimensions>(AttrId::kRaggedDotDims);
  RETURN_IF_ERROR(CheckPrecision(op, "ragged_dot_precision"));
  RETURN_IF_ERROR(CheckDims(op, d.dot, lhs, rhs, d.lhs_ragged, d.rhs_group));
  if (d.lhs_ragged.size() != 1 || !AllInRange(d.lhs_ragged, 0, lhs.rank())) {
    return Fail(op, "ragged_dot_c11", "needs one ragged dim of lhs ", lhs.ToString(), ", found ",
                FormatDims(d.lhs_ragged));
  }
  if (d.rhs_group.size() > 1 || !AllInRange(d.rhs_group, 0, rhs.rank())) {
    return Fail(op, "ragged_dot_c12", "takes at most one group dim of rhs ", rhs.ToString(), ", found ",
                FormatDims(d.rhs_group));
  }
  if (!IsIntegral(groups.element_type()) || groups.rank() < 1) {
    return Fail(op, "ragged_dot_c14", "group sizes must be integers of rank 1 or more, found ", groups.ToString());
  }
  const int64_t g = groups.dimensions(groups.rank() - 1);
  const int64_t ragged = d.lhs_ragged[0];
  const bool contracting = Contains(d.dot.lhs_contracting, ragged), batch = Contains(d.dot.lhs_batch, ragged);
  if (!contracting && !batch) {
    if (d.rhs_group.empty()) return Fail(op, "ragged_dot_c15", "a ragged free dim needs a group dim of rhs");
    if (rhs.dimensions(d.rhs_group[0]) != g) {
      return Fail(op, "ragged_dot_c16", "rhs ", rhs.ToString(), " dim ", d.rhs_group[0],
                  " must be the number of groups ", g);
    }
  } else if (!d.rhs_group.empty()) {
    return Fail(op, "ragged_dot_c15", "a group dim of rhs goes with a ragged free dim only");
  }
  // Group sizes: [g], or the lhs dims before the ragged one within its kind, then g.
  const int64_t prefix = batch ? 0 : static_cast<int64_t>(d.dot.lhs_batch.size());
  if (groups.rank() != 1 && groups.rank() != prefix + 1) {
    return Fail(op, "ragged_dot_c14", "group sizes ", groups.ToString(), " must have rank 1 or ", prefix + 1);
  }
  for (int64_t i = 0; groups.rank() > 1 && i < prefix; ++i) {
    if (groups.dimensions(i) != lhs.dimensions(d.dot.lhs_batch[i])) {
      return Fail(op, "ragged_dot_c14", "group sizes ", groups.ToString(), " do not fit the batch dims of ",
                  lhs.ToString());
    }
  }
  ASSIGN_OR_RETURN(PrimitiveType type, ResultType(op, lhs.element_type(), rhs.element_type()));
  DimVector dims = ResultDims(d.dot, lhs, rhs, d.rhs_group);
  if (contracting) dims.insert(dims.begin(), g);
  return Shape(type, dims);
}

// Operands: lhs, rhs, lhs scale, rhs scale. A contracting size of the scale divides that of the operand.
absl::StatusOr<Shape> InferScaled(const OpContext& op) {
  if (op.operands.size() != 4) return Fail(op, "scaled_dot_arity", "has ", op.operands.size(), " operands, expected 4");
  const DotDimensions& d = op.attrs->Get<DotDimensions>(AttrId::kDotDims);
  const Shape &lhs = op.operand(0), &rhs = op.operand(1);
  RETURN_IF_ERROR(CheckPrecision(op, "scaled_dot_precision"));
  RETURN_IF_ERROR(CheckDims(op, d, lhs, rhs, {}, {}));
  for (int side = 0; side < 2; ++side) {
    const Shape &x = op.operand(side), &scale = op.operand(2 + side);
    const Ints& contracting = side == 0 ? d.lhs_contracting : d.rhs_contracting;
    if (scale.rank() != x.rank()) {
      return Fail(op, "scaled_dot_c14", "scale ", scale.ToString(), " must have the rank of ", x.ToString());
    }
    for (int64_t i = 0; i < x.rank(); ++i) {
      const int64_t s = scale.dimensions(i);
      const bool good = s == x.dimensions(i) || (Contains(contracting, i) && s > 0 && x.dimensions(i) % s == 0);
      if (!good)
        return Fail(op, "scaled_dot_c15", "scale ", scale.ToString(), " does not fit ", x.ToString(), " in dim ", i);
    }
  }
  PrimitiveType type = PrimitiveType::kBF16;
  if (op.declared != nullptr) {
    ASSIGN_OR_RETURN(Shape declared, GetDeclaredArrayShape(op));
    type = declared.element_type();
  }
  if (!IsFloat(type)) return Fail(op, "scaled_dot_c13", "the result must be a float, found ", Name(type));
  return Shape(type, ResultDims(d, lhs, rhs, {}));
}

}  // namespace

absl::StatusOr<Shape> InferContraction(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  if (op.opcode == Opcode::kRaggedDot) return InferRagged(op);
  if (op.opcode == Opcode::kScaledDot) return InferScaled(op);
  const Shape &lhs = op.operand(0), &rhs = op.operand(1);
  const DotDimensions& d = op.attrs->Get<DotDimensions>(AttrId::kDotDims);
  RETURN_IF_ERROR(CheckDims(op, d, lhs, rhs, {}, {}));
  RETURN_IF_ERROR(CheckPrecision(op, "dot_c11"));
  RETURN_IF_ERROR(CheckAlgorithm(op));
  ASSIGN_OR_RETURN(PrimitiveType type, ResultType(op, lhs.element_type(), rhs.element_type()));
  return Shape(type, ResultDims(d, lhs, rhs, {}));
}

Cost CostContraction(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  const DotDimensions& d = op.opcode == Opcode::kRaggedDot
                               ? op.attrs->Get<RaggedDotDimensions>(AttrId::kRaggedDotDims).dot
                               : op.attrs->Get<DotDimensions>(AttrId::kDotDims);
  double k = 1;
  for (int64_t i : d.lhs_contracting) k *= static_cast<double>(op.operand(0).dimensions(i));
  cost.flops = 2 * k * ElementCount(result) * (IsComplex(result.element_type()) ? 4 : 1);
  return cost;
}

}  // namespace backplane
