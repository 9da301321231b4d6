// A one-shot event: not ready, then ready with a Status. Copies share the state.
//
// Thread-safety: everything from any thread. Callbacks run once, never under a lock of ours: in the thread that sets
// the event, or at once in the caller's when it is already set. A callback that sets events in its turn makes a chain;
// a chain of any length takes a bounded part of the stack, because below a certain depth callbacks are queued and run
// when the one that runs now returns (or waits in Await). A callback must not block for long. What a callback throws
// goes no further; promises that it held are broken.
//
// Whoever makes a value holds a Promise rather than an Event: a promise that is let go without a word ends in an error,
// so nobody waits for ever for work that was lost.
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
  // When the last Event of a state goes that was never set, its callbacks get Aborted.
  void OnReady(std::function<void(const absl::Status&)> callback) const;

  // Ready when all are; carries the first error in list order.
  static Event All(absl::Span<const Event> events);

  // Whether this thread runs a callback at the moment.
  static bool InCallback();

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: ready, OK
};

// The maker's side of an event. Copies share it: when the last one goes and nobody has called Set, the event becomes
// Aborted, with `what` in its text.
class Promise {
 public:
  explicit Promise(const char* what);  // a string that lives for ever, such as "copy"
  Promise();                           // of nothing: a ready event

  Event event() const;
  void Set(absl::Status status = absl::OkStatus()) const { event().Set(std::move(status)); }

 private:
  struct Keeper;
  std::shared_ptr<const Keeper> keeper_;  // null: of nothing
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EVENT_H_
