// The completion of asynchronous work. An event becomes ready once, with or without an error, and stays ready.
//
// Thread-safe, except for moving and destroying.
#ifndef BACKPLANE_SDK_HOST_EVENT_H_
#define BACKPLANE_SDK_HOST_EVENT_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/host/handle.h"

namespace backplane::host {

class Event {
 public:
  // Creates an event that is ready without an error. It needs no object of the plugin.
  Event() = default;
  // Takes ownership of `event`. A null `event` gives an event that is ready without an error.
  Event(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_Event* event)
      : handle_(plugin, std::move(client), event) {}

  // Blocks until the event is ready and returns its status.
  absl::Status Await() const;
  absl::StatusOr<bool> IsReady() const;
  // Returns the status of the event, which must be ready.
  absl::Status Outcome() const;
  // Calls `callback` once with the status: in a thread of the plugin, or in this thread if the event is already ready.
  // The callback must not block and must not own the last reference to the client. The event object may be destroyed
  // before the callback runs. If OnReady returns an error, `callback` is not called.
  absl::Status OnReady(absl::AnyInvocable<void(absl::Status)> callback) const;

  PJRT_Event* raw() const { return handle_.get(); }
  PJRT_Event* release() { return handle_.release(); }

 private:
  internal::Handle<PJRT_Event> handle_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_EVENT_H_
