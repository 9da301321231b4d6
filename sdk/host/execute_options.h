// The options and the result of one execution.
#ifndef BACKPLANE_SDK_HOST_EXECUTE_OPTIONS_H_
#define BACKPLANE_SDK_HOST_EXECUTE_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "sdk/host/buffer.h"

namespace backplane::host {

// Passes data of extensions, such as the user data of custom calls, to executions. Requires PJRT 0.52. It may be
// destroyed when Execute has returned.
class ExecuteContext {
 public:
  static absl::StatusOr<ExecuteContext> Create(const Plugin& plugin);
  PJRT_ExecuteContext* raw() const { return handle_.get(); }

 private:
  explicit ExecuteContext(internal::Handle<PJRT_ExecuteContext> handle) : handle_(std::move(handle)) {}
  internal::Handle<PJRT_ExecuteContext> handle_;
};

// The stream by which the host supplies the data of a receive operation of a program. The callback that gets it owns
// it. Destroying it ends the transfer.
class DeviceStream {
 public:
  DeviceStream(const Plugin& plugin, PJRT_CopyToDeviceStream* raw) : handle_(plugin, nullptr, raw) {}
  absl::StatusOr<int64_t> TotalBytes() const;    // of the complete transfer
  absl::StatusOr<int64_t> GranuleSize() const;   // in bytes; the size of each chunk must be a multiple of it
  absl::StatusOr<int64_t> CurrentBytes() const;  // that have been added so far
  // Adds the next chunk. `data` is copied before the function returns. The event is ready when the chunk is on the
  // device.
  absl::StatusOr<Event> AddChunk(absl::Span<const std::byte> data) const;

 private:
  internal::Handle<PJRT_CopyToDeviceStream> handle_;
};

// The host's side of a send operation of a program. `on_chunk` is called for each chunk, from any thread. `total_bytes`
// is the size of all chunks together, and `last` is true for the last one.
struct SendHandler {
  int64_t channel_id = 0;
  std::function<absl::Status(absl::Span<const std::byte> chunk, size_t total_bytes, bool last)> on_chunk;
};
// The host's side of a receive operation of a program. `on_ready` is called when the program is ready to receive, from
// any thread.
struct RecvHandler {
  int64_t channel_id = 0;
  std::function<void(DeviceStream stream)> on_ready;
};

struct ExecuteOptions {
  int launch_id = 0;  // the same in all processes of one launch
  // The indices of arguments that the program must not consume, although it was compiled to (PJRT 0.39).
  std::vector<int64_t> non_donatable;
  const ExecuteContext* context = nullptr;  // null: none; PJRT 0.64
  std::string call_location;                // the source location of the call in the user's program; PJRT 0.76
  Device device;                            // for portable executables: the device to run on
  bool want_events = false;                 // whether to set ExecuteResult::done
  // One list of handlers for each device. They may be called until the execution is complete.
  std::vector<std::vector<SendHandler>> send;
  std::vector<std::vector<RecvHandler>> recv;
};

struct ExecuteResult {
  std::vector<std::vector<Buffer>> outputs;  // one list for each device
  std::vector<Event> done;                   // one for each device, if requested
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_EXECUTE_OPTIONS_H_
