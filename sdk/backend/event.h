// A one-shot event: not ready, then ready with a Status. Copies share the state.
//
// Thread-safety: everything from any thread. Callbacks run once, never under a lock of ours: in the thread that sets
// the event, or at once in the caller's when it is already set. A callback must not block for long.
#ifndef BACKPLANE_SDK_BACKEND_EVENT_H_
#define BACKPLANE_SDK_BACKEND_EVENT_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace backplane {

class Event {
 public:
  Event();                                  // ready, OK; no allocation
  static Event Create();                    // not ready
  static Event Ready(absl::Status status);  // ready with this status

  bool IsReady() const;
  absl::Status status() const;                             // only when ready
  void Set(absl::Status status = absl::OkStatus()) const;  // a second Set is ignored
  absl::Status Await() const;                              // blocks
  void OnReady(std::function<void(const absl::Status&)> callback) const;

  // Ready when all are; carries the first error in list order.
  static Event All(absl::Span<const Event> events);

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: ready, OK
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EVENT_H_
