#include "core/ir/ops/host_transfer.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {
namespace {

using internal::Fail;
using Type = ChannelHandle::Type;

absl::Status CheckChannel(Opcode opcode, const ChannelHandle& handle, Type wanted) {
  if (handle.handle <= 0) {
    return Fail(opcode, opcode == Opcode::kSend ? "send_i3" : "recv_i3", "the channel's handle must be above 0, found ",
                handle.handle);
  }
  if (handle.type != Type::kInvalid && handle.type != wanted) {
    return Fail(opcode, opcode == Opcode::kSend ? "send_c5" : "recv_c5",
                "the channel's type does not fit the direction");
  }
  return absl::OkStatus();
}

Attributes TransferAttributes(int64_t channel_id, bool host) {
  Attributes attrs;
  attrs.Set(AttrId::kChannelId, channel_id);
  if (host) attrs.Set(AttrId::kIsHostTransfer, true);
  return attrs;
}

Result Token(Builder& b) { return b.Op(Opcode::kAfterAll, {}); }

Shape Context(const Shape& data) {
  return Shape::Tuple({data.WithoutLayout(), Shape::Scalar(PrimitiveType::kU32), Shape::Token()});
}

// The done has the attributes of its start.
Result Done(Builder& b, Opcode opcode, Value context, const Shape& shape) {
  const Attributes& start = context->attrs();
  return b.Op(opcode, {context},
              TransferAttributes(start.GetInt(AttrId::kChannelId), start.GetBool(AttrId::kIsHostTransfer)), {}, shape);
}

Result RecvBoth(Builder& b, Value token, const Shape& shape, int64_t channel_id, bool host) {
  ASSIGN_OR_RETURN(Value recv, CreateRecv(b, shape, channel_id, token, host));
  return CreateRecvDone(b, recv);
}

Result SendBoth(Builder& b, Value operand, Value token, int64_t channel_id, bool host) {
  ASSIGN_OR_RETURN(Value send, CreateSend(b, operand, channel_id, token, host));
  return CreateSendDone(b, send);
}

}  // namespace

Result InfeedWithToken(Builder& b, Value token, const Shape& shape, const std::optional<std::string>& config) {
  Attributes attrs;
  if (config) attrs.Set(AttrId::kInfeedConfig, *config);
  return b.Op(Opcode::kInfeed, {token}, std::move(attrs), {}, Shape::Tuple({shape, Shape::Token()}));
}

Result Infeed(Builder& b, const Shape& shape, const std::optional<std::string>& config) {
  ASSIGN_OR_RETURN(Value token, Token(b));
  ASSIGN_OR_RETURN(Value both, InfeedWithToken(b, token, shape, config));
  return b.GetTupleElement(both, 0);
}

Result OutfeedWithToken(Builder& b, Value operand, Value token, const Shape& shape_with_layout,
                        const std::string& outfeed_config) {
  Attributes attrs;
  attrs.Set(AttrId::kOutfeedShape, std::vector<Shape>{shape_with_layout});
  if (!outfeed_config.empty()) attrs.Set(AttrId::kOutfeedConfig, outfeed_config);
  return b.Op(Opcode::kOutfeed, {operand, token}, std::move(attrs));
}

Result Outfeed(Builder& b, Value operand, const Shape& shape_with_layout, const std::string& outfeed_config) {
  ASSIGN_OR_RETURN(Value token, Token(b));
  return OutfeedWithToken(b, operand, token, shape_with_layout, outfeed_config);
}

Result Recv(Builder& b, const Shape& shape, const ChannelHandle& handle) {
  RETURN_IF_ERROR(CheckChannel(Opcode::kRecv, handle, Type::kDeviceToDevice));
  ASSIGN_OR_RETURN(Value both, RecvBoth(b, nullptr, shape, handle.handle, false));
  return b.GetTupleElement(both, 0);
}

Result Send(Builder& b, Value operand, const ChannelHandle& handle) {
  RETURN_IF_ERROR(CheckChannel(Opcode::kSend, handle, Type::kDeviceToDevice));
  return SendBoth(b, operand, nullptr, handle.handle, false);
}

Result RecvWithTokens(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kRecv, {token}));
  RETURN_IF_ERROR(CheckChannel(Opcode::kRecv, handle, Type::kDeviceToDevice));
  return RecvBoth(b, token, shape, handle.handle, false);
}

Result SendWithTokens(Builder& b, Value operand, Value token, const ChannelHandle& handle) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kSend, {operand, token}));
  RETURN_IF_ERROR(CheckChannel(Opcode::kSend, handle, Type::kDeviceToDevice));
  return SendBoth(b, operand, token, handle.handle, false);
}

Result RecvToHost(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kRecv, {token}));
  RETURN_IF_ERROR(CheckChannel(Opcode::kRecv, handle, Type::kHostToDevice));
  return RecvBoth(b, token, shape, handle.handle, true);
}

Result RecvFromHost(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle) {
  return RecvToHost(b, token, shape, handle);
}

Result SendToHost(Builder& b, Value operand, Value token, const Shape& shape_with_layout, const ChannelHandle& handle) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kSend, {operand, token}));
  RETURN_IF_ERROR(CheckChannel(Opcode::kSend, handle, Type::kDeviceToHost));
  if (!(shape_with_layout.WithoutLayout() == operand->shape().WithoutLayout())) {
    return Fail(Opcode::kSend, "send_shape", "operand is ", operand->shape().ToString(), ", shape to send ",
                shape_with_layout.ToString());
  }
  return SendBoth(b, operand, token, handle.handle, true);
}

Result CreateRecv(Builder& b, const Shape& shape, int64_t channel_id, Value token, bool is_host_transfer) {
  if (token == nullptr) {
    ASSIGN_OR_RETURN(token, Token(b));
  }
  return b.Op(Opcode::kRecv, {token}, TransferAttributes(channel_id, is_host_transfer), {}, Context(shape));
}

Result CreateRecvDone(Builder& b, Value context) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kRecvDone, {context}));
  const Shape& s = context->shape();
  if (!context->Is(Opcode::kRecv)) {
    return Fail(Opcode::kRecvDone, "recv_done_context", "the operand must be a recv, found ", context->name());
  }
  return Done(b, Opcode::kRecvDone, context, Shape::Tuple({s.tuple_shapes(0).WithoutLayout(), Shape::Token()}));
}

Result CreateSend(Builder& b, Value operand, int64_t channel_id, Value token, bool is_host_transfer) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kSend, {operand}));
  if (token == nullptr) {
    ASSIGN_OR_RETURN(token, Token(b));
  }
  return b.Op(Opcode::kSend, {operand, token}, TransferAttributes(channel_id, is_host_transfer), {},
              Context(operand->shape()));
}

Result CreateSendDone(Builder& b, Value context) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kSendDone, {context}));
  if (!context->Is(Opcode::kSend)) {
    return Fail(Opcode::kSendDone, "send_done_context", "the operand must be a send, found ", context->name());
  }
  return Done(b, Opcode::kSendDone, context, Shape::Token());
}

}  // namespace backplane::hlo
