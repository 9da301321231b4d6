// What one execution takes beside its arguments, and what it gives.
#ifndef BACKPLANE_SDK_HOST_EXECUTE_OPTIONS_H_
#define BACKPLANE_SDK_HOST_EXECUTE_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "sdk/host/buffer.h"

namespace backplane::host {

// Carries data of extensions (user data of custom calls) to one execution (PJRT 0.52). It may go when Execute has
// returned.
class ExecuteContext {
 public:
  static absl::StatusOr<ExecuteContext> Create(const Plugin& plugin);
  PJRT_ExecuteContext* raw() const { return handle_.get(); }

 private:
  explicit ExecuteContext(internal::Handle<PJRT_ExecuteContext> handle) : handle_(std::move(handle)) {}
  internal::Handle<PJRT_ExecuteContext> handle_;
};

// Feeds a receive operation of a program. Owned by the callback it was given to; destroying it ends the transfer.
class DeviceStream {
 public:
  DeviceStream(const Plugin& plugin, PJRT_CopyToDeviceStream* raw) : handle_(plugin, nullptr, raw) {}
  absl::StatusOr<int64_t> TotalBytes() const;
  absl::StatusOr<int64_t> GranuleSize() const;  // bytes; chunk sizes are multiples of it
  absl::StatusOr<int64_t> CurrentBytes() const;
  // Copies the next piece; `data` is copied before this returns. The event is ready when the piece is on the device.
  absl::StatusOr<Event> AddChunk(absl::Span<const std::byte> data) const;

 private:
  internal::Handle<PJRT_CopyToDeviceStream> handle_;
};

// The host's end of a send operation: called with each chunk, `last` with the last of `total_bytes`. Any thread.
struct SendHandler {
  int64_t channel_id = 0;
  std::function<absl::Status(absl::Span<const std::byte> chunk, size_t total_bytes, bool last)> on_chunk;
};
// The host's end of a receive operation: called when the program is ready to receive. Any thread.
struct RecvHandler {
  int64_t channel_id = 0;
  std::function<void(DeviceStream stream)> on_ready;
};

struct ExecuteOptions {
  int launch_id = 0;  // the same in all processes of one launch
  // Arguments that stay the caller's though the program may take them (PJRT 0.39).
  std::vector<int64_t> non_donatable;
  const ExecuteContext* context = nullptr;  // PJRT 0.64
  std::string call_location;                // the call in the user's program; PJRT 0.76
  Device device;                            // for portable executables: the device to run on
  bool want_events = false;                 // whether to fill ExecuteResult::done
  // One list of handlers for each device; they stay callable until the execution is complete.
  std::vector<std::vector<SendHandler>> send;
  std::vector<std::vector<RecvHandler>> recv;
};

struct ExecuteResult {
  std::vector<std::vector<Buffer>> outputs;  // one list for each device
  std::vector<Event> done;                   // one for each device, if requested
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_EXECUTE_OPTIONS_H_
