// Calls the host's callbacks for send and receive from a running program.
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/shim/copy_stream.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/guard.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

int64_t ByteSize(const CustomCallBuffer& buffer) {
  int64_t bytes = ByteWidth(buffer.type);
  for (int64_t d : buffer.dims) bytes *= d;
  return bytes;
}

template <typename Info>
absl::StatusOr<Info> Find(const std::vector<Info>& infos, int64_t channel, absl::string_view what) {
  for (const Info& info : infos) {
    if (info.channel_id == channel) return info;
  }
  return absl::FailedPreconditionError(absl::StrCat("the host has no ", what, " callback for channel ", channel));
}

}  // namespace

absl::Status ContextData::SendToHost(int64_t channel, const CustomCallBuffer& data) const {
  ASSIGN_OR_RETURN(PJRT_SendCallbackInfo info, Find(sends, channel, "send"));
  const size_t bytes = static_cast<size_t>(ByteSize(data));
  void* copy = std::malloc(bytes == 0 ? 1 : bytes);
  if (copy == nullptr) return absl::ResourceExhaustedError(absl::StrCat("send: no memory for ", bytes, " bytes"));
  if (bytes > 0) std::memcpy(copy, data.data, bytes);
  PJRT_Chunk chunk{copy, bytes, [](void* p, void*) { std::free(p); }, nullptr};
  PJRT_CallbackError make_error = &MakeCallbackError;
  return TakeError(info.send_callback(&chunk, &make_error, bytes, true, info.user_arg));
}

absl::Status ContextData::ReceiveFromHost(int64_t channel, const CustomCallBuffer& data) const {
  ASSIGN_OR_RETURN(PJRT_RecvCallbackInfo info, Find(receives, channel, "receive"));
  Event complete = Event::Create();
  // The host owns the stream and may continue to use it after its callback has returned.
  auto* stream = new PJRT_CopyToDeviceStream(data.data, ByteSize(data), 1, complete);
  info.recv_callback(stream, info.user_arg);
  return complete.Await();
}

absl::StatusOr<std::shared_ptr<const ContextData>> AddCallbacks(std::shared_ptr<const ContextData> context,
                                                                const PJRT_ExecuteOptions& options, size_t device) {
  if (options.num_send_ops == 0 && options.num_recv_ops == 0) return context;
  auto own = context == nullptr ? std::make_shared<ContextData>() : std::make_shared<ContextData>(*context);
  if (options.num_send_ops > 0) {
    BP_REQUIRE(options.send_callbacks);
    BP_REQUIRE(options.send_callbacks[device]);
    own->sends.assign(options.send_callbacks[device], options.send_callbacks[device] + options.num_send_ops);
  }
  if (options.num_recv_ops > 0) {
    BP_REQUIRE(options.recv_callbacks);
    BP_REQUIRE(options.recv_callbacks[device]);
    own->receives.assign(options.recv_callbacks[device], options.recv_callbacks[device] + options.num_recv_ops);
  }
  for (const PJRT_SendCallbackInfo& s : own->sends) BP_REQUIRE(s.send_callback);
  for (const PJRT_RecvCallbackInfo& r : own->receives) BP_REQUIRE(r.recv_callback);
  return std::shared_ptr<const ContextData>(std::move(own));
}

}  // namespace backplane::shim
