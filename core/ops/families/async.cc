// Shape rules and cost of the halves of asynchronous operations.
//
// What a start yields: all-reduce-start the result itself; all-gather-start (operands, results);
// collective-permute-start (operand, result, contexts...); copy-start (result, operand, context);
// async-start ((operands...), result, contexts...). A done yields the result.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::Status CheckTuple(const OpContext& op, const Shape& s, int64_t least) {
  if (s.IsTuple() && s.tuple_size() >= least) return absl::OkStatus();
  return Fail(op, Label(op, "result"), "needs a tuple of ", least, " or more values, found ", s.ToString());
}

Shape OperandsShape(const OpContext& op) {
  std::vector<Shape> shapes;
  for (const Shape* s : op.operands) shapes.push_back(s->WithoutLayout());
  return shapes.size() == 1 ? shapes[0] : Shape::Tuple(std::move(shapes));
}

absl::StatusOr<Shape> InferStart(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape declared, GetDeclaredShape(op));
  if (op.operands.empty() && op.opcode != Opcode::kAsyncStart) return Fail(op, Label(op, "arity"), "needs an operand");
  switch (op.opcode) {
    case Opcode::kAllReduceStart:
      RETURN_IF_ERROR(CheckGroups(op));
      RETURN_IF_ERROR(CheckReducer(op, "all_reduce_start_c5"));
      if (!SameTypeAndDims(declared, OperandsShape(op))) {
        return Fail(op, "all_reduce_start_c6", "operands are ", OperandsShape(op).ToString(), ", declared ",
                    declared.ToString());
      }
      return declared;
    case Opcode::kAllGatherStart:
    case Opcode::kCollectivePermuteStart:
      RETURN_IF_ERROR(CheckTuple(op, declared, 2));
      if (!SameTypeAndDims(declared.tuple_shapes(0), OperandsShape(op))) {
        return Fail(op, Label(op, "result"), "operands are ", OperandsShape(op).ToString(), ", declared ",
                    declared.ToString());
      }
      if (op.opcode == Opcode::kAllGatherStart) {
        RETURN_IF_ERROR(CheckOperandsAreArrays(op));
        RETURN_IF_ERROR(CheckGroups(op));
        RETURN_IF_ERROR(CheckGathered(op, declared.tuple_shapes(1), "all_gather_start_c1", "all_gather_start_c6"));
        return declared;
      }
      RETURN_IF_ERROR(
          CheckPairs(op, "collective_permute_start_c2", "collective_permute_start_c3", "collective_permute_start_c4"));
      if (!SameTypeAndDims(declared.tuple_shapes(1), OperandsShape(op))) {
        return Fail(op, "collective_permute_start_c5", "operands are ", OperandsShape(op).ToString(), ", result ",
                    declared.tuple_shapes(1).ToString());
      }
      return declared;
    case Opcode::kCopyStart:
      RETURN_IF_ERROR(CheckTuple(op, declared, 2));
      if (!SameTypeAndDims(declared.tuple_shapes(0), op.operand(0)) ||
          !SameTypeAndDims(declared.tuple_shapes(1), op.operand(0))) {
        return Fail(op, "copy_start_result", "operand is ", op.operand(0).ToString(), ", declared ",
                    declared.ToString());
      }
      return declared;
    default:
      break;
  }
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  RETURN_IF_ERROR(CheckTuple(op, declared, 2));
  std::vector<Shape> parameters;
  for (const Shape* s : op.operands) parameters.push_back(*s);
  RETURN_IF_ERROR(CheckSignature(op, 0, parameters, declared.tuple_shapes(1), "async_start_c4"));
  if (!SameTypeAndDims(declared.tuple_shapes(0), Shape::Tuple(parameters))) {
    return Fail(op, "async_start_c3", "operands are ", Shape::Tuple(parameters).ToString(), ", declared ",
                declared.ToString());
  }
  return declared;
}

}  // namespace

absl::StatusOr<Shape> InferAsync(const OpContext& op) {
  switch (op.opcode) {
    case Opcode::kAllReduceDone:
      return op.operand(0).WithoutLayout();
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kAsyncDone:
      RETURN_IF_ERROR(CheckTuple(op, op.operand(0), 2));
      return op.operand(0).tuple_shapes(1).WithoutLayout();
    case Opcode::kCopyDone:
      RETURN_IF_ERROR(CheckTuple(op, op.operand(0), 2));
      return op.operand(0).tuple_shapes(0).WithoutLayout();
    case Opcode::kAsyncUpdate:
      RETURN_IF_ERROR(CheckTuple(op, op.operand(0), 2));
      return op.operand(0).WithoutLayout();
    default:
      return InferStart(op);
  }
}

Cost CostAsync(const OpContext& op, const Shape& result) {
  switch (op.opcode) {
    case Opcode::kAllGatherStart:
    case Opcode::kAllReduceStart:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCopyStart:
      return ElementCost(op, result, 0);
    default:
      return Cost{};
  }
}

}  // namespace backplane
