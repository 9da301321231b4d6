// Shape rules and cost of collectives.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::StatusOr<int64_t> OneDimension(const OpContext& op, const Shape& x, absl::string_view label) {
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (dims.size() != 1 || dims[0] < 0 || dims[0] >= x.rank()) {
    return Fail(op, label, "dimension ", FormatDims(dims), " is not one of ", x.ToString());
  }
  return dims[0];
}

absl::StatusOr<Shape> InferReduceScatter(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape declared, GetDeclaredShape(op));
  ASSIGN_OR_RETURN(std::vector<Shape> results, InferResultOfEach(op, declared));
  const int64_t group = KnownGroupSize(op);
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape &x = op.operand(static_cast<int>(i)), &y = results[i];
    ASSIGN_OR_RETURN(int64_t d, OneDimension(op, x, "reduce_scatter_c2"));
    if (group > 0 && x.dimensions(d) % group != 0) {
      return Fail(op, "reduce_scatter_c1", "dim ", d, " of ", x.ToString(), " is not divisible by group size ", group);
    }
    if (!IsScaledAlongDim(y, x, d, group)) {
      return Fail(op, "reduce_scatter_c8", "operand ", x.ToString(), " does not become ", y.ToString(), " along dim ",
                  d);
    }
  }
  return declared;
}

absl::StatusOr<Shape> InferAllToAll(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape declared, GetDeclaredShape(op));
  if (op.operands.empty()) return Fail(op, "all_to_all_arity", "needs an operand");
  const int64_t group = GroupSize(op);
  if (declared.IsArray()) {
    if (op.operands.size() != 1) return Fail(op, "all_to_all_arity", "an array result needs one operand");
    const Shape& x = op.operand(0);
    ASSIGN_OR_RETURN(int64_t d, OneDimension(op, x, "all_to_all_c1"));
    if (group > 0 && x.dimensions(d) % group != 0) {
      return Fail(op, "all_to_all_c2", "dim ", d, " of ", x.ToString(), " is not divisible by group size ", group);
    }
    if (!SameTypeAndDims(x, declared))
      return Fail(op, "all_to_all_c9", "operand is ", x.ToString(), ", declared ", declared.ToString());
    return declared;
  }
  if (declared.tuple_size() != static_cast<int64_t>(op.operands.size()) ||
      (group > 0 && group != static_cast<int64_t>(op.operands.size()))) {
    return Fail(op, "all_to_all_c8", "has ", op.operands.size(), " operands, group size ", group, ", declared ",
                declared.ToString());
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!SameTypeAndDims(op.operand(static_cast<int>(i)), op.operand(0)) ||
        !SameTypeAndDims(declared.tuple_shapes(static_cast<int64_t>(i)), op.operand(0))) {
      return Fail(op, "all_to_all_c9", "operands and results must all be ", op.operand(0).ToString());
    }
  }
  return declared;
}

Shape OperandsAsResult(const OpContext& op) {
  if (op.operands.size() == 1) return op.operand(0).WithoutLayout();
  std::vector<Shape> shapes;
  for (const Shape* s : op.operands) shapes.push_back(s->WithoutLayout());
  return Shape::Tuple(std::move(shapes));
}

}  // namespace

absl::StatusOr<Shape> InferCollective(const OpContext& op) {
  if (op.opcode == Opcode::kPartitionId || op.opcode == Opcode::kReplicaId) {
    const Shape result = Shape::Scalar(PrimitiveType::kU32);
    if (op.declared != nullptr && !SameTypeAndDims(*op.declared, result)) {
      return Fail(op, Label(op, "result"), "the id is u32[], declared ", op.declared->ToString());
    }
    return result;
  }
  RETURN_IF_ERROR(CheckGroups(op));
  switch (op.opcode) {
    case Opcode::kAllGather: {
      RETURN_IF_ERROR(CheckOperandsAreArrays(op));
      ASSIGN_OR_RETURN(Shape gathered, GetDeclaredShape(op));
      RETURN_IF_ERROR(CheckGathered(op, gathered, "all_gather_c1", "all_gather_c6"));
      return gathered;
    }
    case Opcode::kReduceScatter:
      RETURN_IF_ERROR(CheckOperandsAreArrays(op));
      RETURN_IF_ERROR(CheckReducer(op, "reduce_scatter_c7"));
      return InferReduceScatter(op);
    case Opcode::kAllToAll:
      RETURN_IF_ERROR(CheckOperandsAreArrays(op));
      return InferAllToAll(op);
    case Opcode::kAllReduce:
      RETURN_IF_ERROR(CheckReducer(op, "all_reduce_c5"));
      return OperandsAsResult(op);
    case Opcode::kCollectivePermute:
      RETURN_IF_ERROR(CheckPairs(op, "collective_permute_c2", "collective_permute_c3", "collective_permute_c4"));
      break;
    case Opcode::kRaggedAllToAll: {
      const Shape &input = op.operand(0), &output = op.operand(1);
      RETURN_IF_ERROR(CheckOperandsAreArrays(op));
      bool rows = input.element_type() == output.element_type() && input.rank() == output.rank() && input.rank() >= 1;
      for (int64_t d = 1; rows && d < input.rank(); ++d) rows = input.dimensions(d) == output.dimensions(d);
      if (!rows) {
        return Fail(op, "ragged_all_to_all_c1", "input ", input.ToString(), " does not fit output ", output.ToString());
      }
      for (int i = 2; i < 6; ++i) {
        const Shape& s = op.operand(i);
        if (!IsIntegral(s.element_type()) || !SameDims(s, op.operand(2)) || s.rank() < 1 || s.rank() > 2) {
          return Fail(op, "ragged_all_to_all_c2", "operand ", i, " must be integers of one common shape, found ",
                      s.ToString());
        }
      }
      return output.WithoutLayout();
    }
    default:
      break;
  }
  if (op.operands.empty()) return Fail(op, Label(op, "arity"), "needs an operand");
  return OperandsAsResult(op);
}

Cost CostCollective(const OpContext& op, const Shape& result) {
  return ElementCost(op, result, op.opcode == Opcode::kAllReduce || op.opcode == Opcode::kReduceScatter ? 1 : 0);
}

}  // namespace backplane
