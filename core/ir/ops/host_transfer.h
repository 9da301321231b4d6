// Data from and to the host, and between programs over channels.
//
// A channel's handle is above 0 and its type fits the direction ([send_c5], [recv_c5]); a handle of no type fits all.
// Send and recv each are two instructions: the start returns a context (data, u32[], token[]) whose one user is the
// done. The forms named after HLO instructions make one instruction each, the others both.
#ifndef BACKPLANE_CORE_IR_OPS_HOST_TRANSFER_H_
#define BACKPLANE_CORE_IR_OPS_HOST_TRANSFER_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

// The next value of the device's infeed, of that shape: an array, or a tuple of arrays ([infeed_c2]).
Result Infeed(Builder& b, const Shape& shape, const std::optional<std::string>& config = {});
// The same ordered after a token; result (data, token).
Result InfeedWithToken(Builder& b, Value token, const Shape& shape, const std::optional<std::string>& config = {});
// The operand to the outfeed, in that shape, which is its own with a layout ([outfeed_c1]). Result: a token.
Result Outfeed(Builder& b, Value operand, const Shape& shape_with_layout, const std::string& outfeed_config = "");
Result OutfeedWithToken(Builder& b, Value operand, Value token, const Shape& shape_with_layout,
                        const std::string& outfeed_config = "");

// To, and from, another computation with the same channel. Recv yields the data, Send a token.
Result Recv(Builder& b, const Shape& shape, const ChannelHandle& handle);
Result Send(Builder& b, Value operand, const ChannelHandle& handle);
// Ordered after a token. RecvWithTokens yields (data, token), SendWithTokens a token.
Result RecvWithTokens(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle);
Result SendWithTokens(Builder& b, Value operand, Value token, const ChannelHandle& handle);
// From and to the host. RecvFromHost is the same under the name that XLA has for it.
Result RecvToHost(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle);
Result RecvFromHost(Builder& b, Value token, const Shape& shape, const ChannelHandle& handle);
Result SendToHost(Builder& b, Value operand, Value token, const Shape& shape_with_layout, const ChannelHandle& handle);

// HLO level: the start halves, with a token of their own where none is given, and the done halves.
Result CreateRecv(Builder& b, const Shape& shape, int64_t channel_id, Value token = nullptr,
                  bool is_host_transfer = false);
Result CreateRecvDone(Builder& b, Value context);  // (data, token)
Result CreateSend(Builder& b, Value operand, int64_t channel_id, Value token = nullptr, bool is_host_transfer = false);
Result CreateSendDone(Builder& b, Value context);  // token

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_HOST_TRANSFER_H_
