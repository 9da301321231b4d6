#include "sdk/host/event.h"

#include "sdk/host/status.h"

namespace backplane::host {
namespace {

struct Waiting {
  const Plugin* plugin;
  absl::AnyInvocable<void(absl::Status)> callback;
};

void Notify(PJRT_Error* error, void* user_arg) {
  std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(user_arg));
  waiting->callback(waiting->plugin->TakeError(error));
}

}  // namespace

absl::Status Event::Await() const {
  if (!handle_) return absl::OkStatus();
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_Event_Await);
  a.event = handle_.get();
  return BP_PJRT_CALL(handle_.plugin(), PJRT_Event_Await, a);
}

absl::StatusOr<bool> Event::IsReady() const {
  if (!handle_) return true;
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_Event_IsReady);
  a.event = handle_.get();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(handle_.plugin(), PJRT_Event_IsReady, a));
  return a.is_ready;
}

absl::Status Event::Outcome() const {
  if (!handle_) return absl::OkStatus();
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_Event_Error);
  a.event = handle_.get();
  return BP_PJRT_CALL(handle_.plugin(), PJRT_Event_Error, a);
}

absl::Status Event::OnReady(absl::AnyInvocable<void(absl::Status)> callback) const {
  if (!handle_) {
    callback(absl::OkStatus());
    return absl::OkStatus();
  }
  auto waiting = std::make_unique<Waiting>(Waiting{&handle_.plugin(), std::move(callback)});
  BP_PJRT_ARGS(handle_.plugin(), a, PJRT_Event_OnReady);
  a.event = handle_.get();
  a.callback = Notify;
  a.user_arg = waiting.get();
  // The callback may run, and free `waiting`, before the call returns.
  Waiting* passed = waiting.release();
  absl::Status status = BP_PJRT_CALL(handle_.plugin(), PJRT_Event_OnReady, a);
  if (!status.ok()) delete passed;
  return status;
}

}  // namespace backplane::host
