// The completion of asynchronous work. An event becomes ready once, with an error or without, and stays so.
//
// Thread-safety: everything from any thread, but moving and destroying.
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
  // Ready without an error, and no object of the plugin.
  Event() = default;
  // Takes `event` over; null is ready without an error.
  Event(const Plugin& plugin, std::shared_ptr<const void> client, PJRT_Event* event)
      : handle_(plugin, std::move(client), event) {}

  // Blocks until it is ready and returns its outcome.
  absl::Status Await() const;
  absl::StatusOr<bool> IsReady() const;
  // The outcome of an event that is ready.
  absl::Status Outcome() const;
  // Calls `callback` once with the outcome: in a thread of the plugin, or in this one when the event is ready before.
  // It must not block, and must not hold the last owner of the client. The event may be destroyed before. An error
  // returned here means that `callback` will not be called.
  absl::Status OnReady(absl::AnyInvocable<void(absl::Status)> callback) const;

  PJRT_Event* raw() const { return handle_.get(); }
  PJRT_Event* release() { return handle_.release(); }

 private:
  internal::Handle<PJRT_Event> handle_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_EVENT_H_
