// A one-shot event: not ready, then ready with a Status. Copies share the state.
//
// Thread-safety: everything from any thread. Callbacks run once, never under a lock of ours: in the thread that sets
// the event, or at once in the caller's when it is already set. A callback that sets events in its turn makes a chain;
// a chain of any length takes a bounded part of the stack, because below a certain depth callbacks are queued and run
// when the one that runs now returns (or waits in Await). A callback must not block for long. What a callback throws
// goes no further; promises that it held are broken.
//
// An event may carry a signal, by which a device waits for it without the host (class Signal).
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

// How a device knows by itself that work has come to its end: an event of a stream, a semaphore in its memory. A
// backend derives its own from this, gives it to the events of work that it has handed to its device, and finds it
// again (dynamic_cast) in the events that it is asked to wait for: then it orders its work behind the signal on the
// device, and no thread of the host wakes up in between.
//
// A signal is a promise that the device gets there without the host: whatever raises it has been handed to the device
// before anybody sees the event. Work that still waits for the host has an event without a signal.
//
// A signal says when, not how: it is raised after failed work too. Whether there is a value is for the event to say.
// Destroyed when its event is set or forgotten, on the thread that does so.
class Signal {
 public:
  virtual ~Signal() = default;
};

class Event {
 public:
  Event();                // ready, OK; no allocation
  static Event Create();  // not ready
  static Event Create(std::shared_ptr<Signal> signal);
  static Event Ready(absl::Status status);  // ready with this status

  bool IsReady() const;
  absl::Status status() const;                             // only when ready
  void Set(absl::Status status = absl::OkStatus()) const;  // a second Set is ignored
  absl::Status Await() const;                              // blocks
  // When the last Event of a state goes that was never set, its callbacks get Aborted.
  void OnReady(std::function<void(const absl::Status&)> callback) const;

  // The signal, as long as the event is not ready; null afterwards, and where there is none.
  std::shared_ptr<Signal> signal() const;

  // Ready when all are; carries the first error in list order. Has a signal where it waits for one event alone.
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
  // `what`: a string that lives for ever, such as "copy". `signal` may be null.
  explicit Promise(const char* what, std::shared_ptr<Signal> signal = nullptr);
  Promise();  // of nothing: a ready event

  Event event() const;
  void Set(absl::Status status = absl::OkStatus()) const { event().Set(std::move(status)); }

 private:
  struct Keeper;
  std::shared_ptr<const Keeper> keeper_;  // null: of nothing
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EVENT_H_
