#include "sdk/backend/event.h"

#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {

absl::Status Event_Destroy(PJRT_Event_Destroy_Args& a) {
  // Only this object could set an event that the host created, so nothing must wait for it any longer.
  if (a.event != nullptr && a.event->host_owned)
    Event(a.event->event).Set(absl::AbortedError("event: destroyed before it was set"));
  delete a.event;
  return absl::OkStatus();
}

absl::Status Event_IsReady(PJRT_Event_IsReady_Args& a) {
  BP_REQUIRE(a.event);
  a.is_ready = a.event->event.IsReady();
  return absl::OkStatus();
}

absl::Status Event_Error(PJRT_Event_Error_Args& a) {
  BP_REQUIRE(a.event);
  if (!a.event->event.IsReady()) return absl::FailedPreconditionError("event: asked for its error before it is ready");
  return a.event->event.status();
}

absl::Status Event_Await(PJRT_Event_Await_Args& a) {
  BP_REQUIRE(a.event);
  return Event(a.event->event).Await();  // a copy, because a callback may destroy the object meanwhile
}

absl::Status Event_OnReady(PJRT_Event_OnReady_Args& a) {
  BP_REQUIRE(a.event);
  BP_REQUIRE(a.callback);
  Event(a.event->event).OnReady([callback = a.callback, user_arg = a.user_arg](const absl::Status& status) {
    callback(MakeError(status), user_arg);
  });
  return absl::OkStatus();
}

absl::Status Event_Create(PJRT_Event_Create_Args& a) {
  a.event = new PJRT_Event{Event::Create(), /*host_owned=*/true};
  return absl::OkStatus();
}

absl::Status Event_Set(PJRT_Event_Set_Args& a) {
  BP_REQUIRE(a.event);
  if (!a.event->host_owned) return absl::InvalidArgumentError("event: only one made by PJRT_Event_Create can be set");
  if (a.event->event.IsReady()) return absl::FailedPreconditionError("event: set a second time");
  Event(a.event->event).Set(MakeStatus(a.error_code, a.error_message, a.error_message_size));
  return absl::OkStatus();
}

}  // namespace backplane::shim
