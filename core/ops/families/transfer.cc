// Shape rules and cost of infeed, outfeed, send and recv.
//
// Results: infeed (data, token); outfeed token; recv and send (data, u32[] request, token); recv-done (data, token);
// send-done token.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::Status CheckOperandIsToken(const OpContext& op, int i) {
  if (op.operand(i).IsToken()) return absl::OkStatus();
  return Fail(op, Label(op, "token"), "operand ", i, " must be a token, found ", op.operand(i).ToString());
}

absl::Status CheckTransferPairs(const OpContext& op) {
  return op.opcode == Opcode::kSend ? CheckPairs(op, "send_c2", "send_c3", "send_c4")
                                    : CheckPairs(op, "recv_c2", "recv_c3", "recv_c4");
}

absl::Status CheckContext(const OpContext& op, const Shape& s) {
  const bool good = s.IsTuple() && s.tuple_size() == 3 &&
                    SameTypeAndDims(s.tuple_shapes(1), Shape::Scalar(PrimitiveType::kU32)) &&
                    s.tuple_shapes(2).IsToken();
  if (good) return absl::OkStatus();
  return Fail(op, Label(op, "context"), "the context must be (data, u32[], token[]), found ", s.ToString());
}

}  // namespace

absl::StatusOr<Shape> InferTransfer(const OpContext& op) {
  switch (op.opcode) {
    case Opcode::kInfeed: {
      RETURN_IF_ERROR(CheckOperandIsToken(op, 0));
      ASSIGN_OR_RETURN(Shape result, GetDeclaredShape(op));
      if (!result.IsTuple() || result.tuple_size() != 2 || !result.tuple_shapes(1).IsToken()) {
        return Fail(op, "infeed_c3", "the result must be (data, token[]), declared ", result.ToString());
      }
      const Shape& data = result.tuple_shapes(0);
      bool arrays = data.IsArray() || data.IsTuple();
      for (const Shape& s : data.tuple_shapes()) arrays = arrays && s.IsArray();
      if (!arrays) return Fail(op, "infeed_c2", "only arrays and tuples of arrays can be fed, found ", data.ToString());
      return result;
    }
    case Opcode::kOutfeed: {
      RETURN_IF_ERROR(CheckOperandIsToken(op, 1));
      const std::vector<Shape>& given = op.attrs->Get<std::vector<Shape>>(AttrId::kOutfeedShape);
      if (op.attrs->Has(AttrId::kOutfeedShape) && (given.size() != 1 || !SameTypeAndDims(given[0], op.operand(0)))) {
        return Fail(op, "outfeed_c1", "operand is ", op.operand(0).ToString(), ", shape to send ",
                    given.empty() ? "none" : given[0].ToString());
      }
      return Shape::Token();
    }
    case Opcode::kSend:
      RETURN_IF_ERROR(CheckTransferPairs(op));
      RETURN_IF_ERROR(CheckOperandIsToken(op, 1));
      return Shape::Tuple({op.operand(0).WithoutLayout(), Shape::Scalar(PrimitiveType::kU32), Shape::Token()});
    case Opcode::kRecv: {
      RETURN_IF_ERROR(CheckTransferPairs(op));
      RETURN_IF_ERROR(CheckOperandIsToken(op, 0));
      ASSIGN_OR_RETURN(Shape result, GetDeclaredShape(op));
      RETURN_IF_ERROR(CheckContext(op, result));
      return result;
    }
    case Opcode::kSendDone:
      RETURN_IF_ERROR(CheckContext(op, op.operand(0)));
      return Shape::Token();
    default:  // recv-done
      RETURN_IF_ERROR(CheckContext(op, op.operand(0)));
      return Shape::Tuple({op.operand(0).tuple_shapes(0).WithoutLayout(), Shape::Token()});
  }
}

Cost CostTransfer(const OpContext& op, const Shape& result) { return ElementCost(op, result, 0); }

}  // namespace backplane
