// Shape rules and cost of operations without operands: constant, iota, parameter.
#include "core/ops/families/checks.h"

namespace backplane {

absl::StatusOr<Shape> InferSource(const OpContext& op) {
  switch (op.opcode) {
    case Opcode::kConstant: {
      if (op.literal == nullptr || !op.literal->valid()) return Fail(op, "constant_i1", "the value is missing");
      if (op.declared != nullptr && !SameTypeAndDims(*op.declared, op.literal->shape())) {
        return Fail(op, "constant_c1", "the value is ", op.literal->shape().ToString(), ", declared ",
                    op.declared->ToString());
      }
      return op.literal->shape();
    }
    case Opcode::kIota: {
      ASSIGN_OR_RETURN(Shape s, GetDeclaredArrayShape(op));
      const int64_t d = op.attrs->GetInt(AttrId::kIotaDimension);
      if (d < 0 || d >= s.rank()) {
        return Fail(op, "iota_c1", "dimension ", d, " is not one of ", s.ToString());
      }
      if (s.element_type() == PrimitiveType::kPred) return Fail(op, "iota_i1", "does not make element type pred");
      return s;
    }
    default: {
      const int64_t n = op.attrs->GetInt(AttrId::kParameterNumber, -1);
      if (n < 0) return Fail(op, "parameter_i1", "parameter number ", n, " is negative or missing");
      return GetDeclaredShape(op);
    }
  }
}

Cost CostSource(const OpContext& op, const Shape& result) {
  return op.opcode == Opcode::kIota ? ElementCost(op, result, 0) : Cost{};
}

}  // namespace backplane
