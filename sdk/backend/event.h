// A one-shot event: it is not ready at first and becomes ready once, with a Status. Copies of an Event share its state.
//
// Thread-safe. Each callback runs once: in the thread that sets the event, or immediately in the caller's thread if the
// event is already set. No internal lock is held while it runs. A callback must not block for long. An exception of a
// callback is caught and dropped, and the promises that the callback owned become errors.
//
// A callback may set other events, whose callbacks may do the same. The stack stays bounded however long such a chain
// is: beyond a certain depth, callbacks are queued and run when the current callback returns or waits in Await.
//
// An event may carry a signal, so that a device can wait for it without the host (class Signal).
//
// Code that produces a value should hold a Promise and not an Event. A promise that is destroyed without being set
// becomes an error, so nothing waits for ever for work that was lost.
#ifndef BACKPLANE_SDK_BACKEND_EVENT_H_
#define BACKPLANE_SDK_BACKEND_EVENT_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace backplane {

// The object by which a device knows that work has ended, such as an event of a stream or a semaphore in device memory.
// A backend derives its own class and attaches it to the events of work that it has submitted to the device. When it is
// asked to wait for an event, it looks for a signal of its class (FindSignal). If there is one, it orders the new work
// after the signal on the device, and no thread of the host has to wake up in between.
//
// The device must be able to raise a signal without the host: the work that raises it has been submitted before the
// event becomes visible to others. The event of work that still waits for the host has no signal.
//
// A signal tells only that work has ended, also if it has failed. Whether there is a value is told by the status of the
// event. The signal is destroyed when its event is set or destroyed, on the thread that does so.
class Signal {
 public:
  // `kind` tells the derived classes of all backends in the process apart: the address of an object that belongs to the
  // class, such as a static member.
  explicit Signal(const void* kind) : kind_(kind) {}
  virtual ~Signal() = default;
  const void* kind() const { return kind_; }

 private:
  const void* const kind_;
};

class Event {
 public:
  Event();                // ready, OK; no allocation
  static Event Create();  // not ready
  static Event Create(std::shared_ptr<Signal> signal);
  static Event Ready(absl::Status status);  // ready with this status

  bool IsReady() const;
  absl::Status status() const;                             // must be ready
  void Set(absl::Status status = absl::OkStatus()) const;  // a second Set is ignored
  absl::Status Await() const;                              // blocks until the event is ready
  // Runs `callback` when the event is ready. If all copies of an event are destroyed before it was set, the callback
  // runs with Aborted.
  void OnReady(std::function<void(const absl::Status&)> callback) const;

  // Returns the signal. Null if the event has none or is ready.
  std::shared_ptr<Signal> signal() const;

  // Returns an event that becomes ready when all of `events` are, with the first error in the order of the list. If
  // only one of them is not ready, the result has the signal of that event.
  static Event All(absl::Span<const Event> events);

  // Whether the current thread is running a callback of an event.
  static bool InCallback();

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: ready, OK
};

// Returns the signal of the event if it is a T, whose constructor passes &T::kKind to that of Signal. Otherwise returns
// null.
template <typename T>
std::shared_ptr<T> FindSignal(const Event& event) {
  std::shared_ptr<Signal> signal = event.signal();
  if (signal == nullptr || signal->kind() != &T::kKind) return nullptr;
  return std::static_pointer_cast<T>(std::move(signal));
}

// The producer's side of an event. Copies share it. If the last copy is destroyed before Set was called, the event
// becomes Aborted, with `what` in the message.
class Promise {
 public:
  // `what` names the work, such as "copy", and must have static lifetime. `signal` may be null.
  explicit Promise(const char* what, std::shared_ptr<Signal> signal = nullptr);
  Promise();  // its event is ready

  Event event() const;
  void Set(absl::Status status = absl::OkStatus()) const { event().Set(std::move(status)); }

 private:
  struct Keeper;
  std::shared_ptr<const Keeper> keeper_;  // null: the event is ready
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EVENT_H_
