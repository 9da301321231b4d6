// Shape rules and cost of cholesky and triangular-solve.
#include "core/ops/families/checks.h"

namespace backplane {

absl::StatusOr<Shape> InferLinearAlgebra(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  const Shape& a = op.operand(0);
  const int64_t r = a.rank();
  if (!IsFloat(a.element_type()) && !IsComplex(a.element_type())) {
    return Fail(op, Label(op, "i1"), "does not take element type ", Name(a.element_type()));
  }
  if (r < 2) return Fail(op, Label(op, "c2"), "needs rank 2 or more, found ", a.ToString());
  if (a.dimensions(r - 1) != a.dimensions(r - 2)) {
    return Fail(op, Label(op, "c3"), "the matrices must be square, found ", a.ToString());
  }
  if (op.opcode == Opcode::kCholesky) return a.WithoutLayout();
  const Shape& b = op.operand(1);
  if (a.element_type() != b.element_type()) {
    return Fail(op, "triangular_solve_c1", "element types differ: ", a.ToString(), " and ", b.ToString());
  }
  if (b.rank() != r) return Fail(op, "triangular_solve_c2", "ranks differ: ", a.ToString(), " and ", b.ToString());
  const int64_t side = op.attrs->GetBool(AttrId::kLeftSide) ? r - 2 : r - 1;
  bool same = b.dimensions(side) == a.dimensions(r - 1);
  for (int64_t i = 0; i < r - 2; ++i) same = same && a.dimensions(i) == b.dimensions(i);
  if (!same) return Fail(op, "triangular_solve_c3", "a ", a.ToString(), " does not fit b ", b.ToString());
  if (op.attrs->Has(AttrId::kTransposeA) &&
      FormatEnum(AttrKind::EnumTriangularTranspose,
                 static_cast<int>(op.attrs->GetEnum<TriangularTranspose>(AttrId::kTransposeA)))
          .empty()) {
    return Fail(op, "triangular_solve_i6", "transpose_a has no known value");
  }
  return b.WithoutLayout();
}

Cost CostLinearAlgebra(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  const Shape& a = op.operand(0);
  const double n = static_cast<double>(a.dimensions(a.rank() - 1));
  cost.flops = op.opcode == Opcode::kCholesky ? ElementCount(a) * n / 3 : ElementCount(result) * n;
  return cost;
}

}  // namespace backplane
