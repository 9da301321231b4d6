// Builders of infeed, outfeed, send and recv: transfers to and from the host, and between programs over channels.
//
// The handle of a channel must be above 0 ([send_i3], [recv_i3]). Its type must fit the direction ([send_c5],
// [recv_c5]); kInvalid fits all directions. Send and recv consist of two instructions each: the start returns a context
// (data, u32[], token[]), whose only user is the done. The functions whose names begin with Create add one instruction,
// the others add both.
#ifndef BACKPLANE_CORE_IR_OPS_HOST_TRANSFER_H_
#define BACKPLANE_CORE_IR_OPS_HOST_TRANSFER_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// Returns the next value of the device's infeed. The shape is an array or a tuple of arrays ([infeed_c2]).
Result Infeed(Builder& b, const Shape& shape, const std::optional<std::string>& config = {});
// Like Infeed, but ordered after a token. Returns (data, token).
Result InfeedWithToken(Builder& b, Value token, const Shape& shape, const std::optional<std::string>& config = {});
// Writes the operand to the outfeed. shape_with_layout is the shape of the operand with the layout that the host
// receives ([outfeed_c1]). Returns a token.
Result Outfeed(Builder& b, Value operand, const Shape& shape_with_layout, const std::string& outfeed_config = "");
Result OutfeedWithToken(Builder& b, Value operand, Value token, const Shape& shape_with_layout,
                        const std::string& outfeed_config = "");

// Exchange data with another computation over the same channel. Recv returns the data, Send a token.
Result Recv(Builder& b, const Shape& shape, const ChannelHandle& handle);
Result Send(Builder& b, Value operand, const ChannelHandle& handle);
// Like Recv and Send, but ordered after a token. RecvWithTokens returns (data, token), SendWithTokens a token.
Result RecvWithTokens(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle);
Result SendWithTokens(Builder& b, Value operand, Value token, const ChannelHandle& handle);
// Exchange data with the host. RecvToHost and RecvFromHost both receive from the host and return (data, token); XLA's
// builder has the former name. SendToHost returns a token.
Result RecvToHost(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle);
Result RecvFromHost(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle);
Result SendToHost(Builder& b, Value operand, Value token, const Shape& shape_with_layout, const ChannelHandle& handle);

// The start and done halves, which exist in HLO only. A start creates a token if none is given.
Result CreateRecv(Builder& b, const Shape& shape, int64_t channel_id, Value token = nullptr,
                  bool is_host_transfer = false);
Result CreateRecvDone(Builder& b, Value context);  // (data, token)
Result CreateSend(Builder& b, Value operand, int64_t channel_id, Value token = nullptr, bool is_host_transfer = false);
Result CreateSendDone(Builder& b, Value context);  // token

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_HOST_TRANSFER_H_
