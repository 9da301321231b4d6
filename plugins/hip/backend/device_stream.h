// A stream of a device whose work the host does not wait for.
//
// Work is enqueued with Submit, which returns at once with an event. If the device can wait for all inputs of the work,
// because they have signals of streams, the event has a signal as well, so chains of copies and programs need no host
// in between. Behind each work an event of the runtime is recorded. A thread of the stream waits for these one after
// another, runs what is left to do on the host, releases what the work held, and sets the event. Nothing runs in
// callbacks of the runtime, where its functions must not be called.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_STREAM_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_STREAM_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "plugins/hip/runtime/hip_api.h"
#include "sdk/backend/event.h"

namespace backplane::hip {

// Streams or events of one device that are made as they are needed and used again. Thread-safe.
template <typename Handle>
class HandlePool {
 public:
  using Make = hipError_t (*)(const HipApi& api, Handle* handle);
  using Destroy = hipError_t (*)(const HipApi& api, Handle handle);
  HandlePool(const HipApi& api, int device, Make make, Destroy destroy)
      : api_(api), device_(device), make_(make), destroy_(destroy) {}
  ~HandlePool() {
    const ScopedDevice current(api_, device_);
    MutexLock lock(mu_);
    for (Handle handle : free_) (void)destroy_(api_, handle);
  }

  // Returns a free handle, or makes one. The device must be the current one.
  absl::StatusOr<Handle> Take() {
    {
      MutexLock lock(mu_);
      if (!free_.empty()) {
        Handle handle = free_.back();
        free_.pop_back();
        return handle;
      }
      if (made_ == free_.capacity()) free_.reserve(std::max<size_t>(16, 2 * made_));
      ++made_;
    }
    Handle handle = nullptr;
    const absl::Status made = ToStatus(make_(api_, &handle), "making a stream or an event");
    if (made.ok()) return handle;
    MutexLock lock(mu_);
    --made_;
    return made;
  }
  // Allocates nothing, because destructors call it.
  void Return(Handle handle) {
    MutexLock lock(mu_);
    free_.push_back(handle);
  }

 private:
  const HipApi& api_;
  const int device_;
  const Make make_;
  const Destroy destroy_;
  Mutex mu_;
  std::vector<Handle> free_ ABSL_GUARDED_BY(mu_);  // has room for all handles that exist
  size_t made_ ABSL_GUARDED_BY(mu_) = 0;
};

using StreamPool = HandlePool<hipStream_t>;
using EventPool = HandlePool<hipEvent_t>;
hipError_t MakeStream(const HipApi& api, hipStream_t* stream);
hipError_t DestroyStream(const HipApi& api, hipStream_t stream);
hipError_t MakeEvent(const HipApi& api, hipEvent_t* event);
// An event for the host's wait alone. AMD's runtime keeps an event locked while a thread waits for it: another thread
// that lets a stream wait for the same event would wait, too.
hipError_t MakeHostEvent(const HipApi& api, hipEvent_t* event);
hipError_t DestroyEvent(const HipApi& api, hipEvent_t event);

// Waits until everything on the stream has ended. The error may be the report of work that failed. If the runtime
// refuses the call, it is made a second time; if that is refused as well, the device is lost, and nothing runs on it.
absl::Status DrainStream(const HipApi& api, hipStream_t stream);

// Returns an event to its pool.
class PooledEvent {
 public:
  PooledEvent() = default;
  PooledEvent(EventPool* pool, hipEvent_t event) : pool_(pool), event_(event) {}
  PooledEvent(PooledEvent&& other) noexcept { *this = std::move(other); }
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~PooledEvent() {
    if (event_ != nullptr) pool_->Return(event_);
  }
  hipEvent_t get() const { return event_; }

 private:
  EventPool* pool_ = nullptr;
  hipEvent_t event_ = nullptr;
};

struct StreamWork {
  const char* what = "copy";             // static; for messages
  std::string program;                   // for the profile; empty: nothing is recorded
  absl::InlinedVector<Event, 4> inputs;  // the work starts after them; an error of one becomes the error of the work
  absl::AnyInvocable<absl::Status(hipStream_t)> start;         // enqueues the work; must not wait, nor set events
  absl::AnyInvocable<absl::Status()> finish;                   // on the host, after success; may be null
  absl::AnyInvocable<void(const absl::Status& status)> ended;  // before the event is set; may be null
  std::vector<std::shared_ptr<const void>> holds;              // released before the event is set
};

// Thread-safe.
class DeviceStream {
 public:
  // The profile shows the stream under `name`. `events` (of MakeEvent) and `host_events` (of MakeHostEvent) must
  // outlive the object. `before_destroy`, which may be null, is called before the stream is destroyed.
  DeviceStream(const HipApi& api, int device, const char* name, EventPool* events, EventPool* host_events,
               std::function<void(hipStream_t)> before_destroy = nullptr);
  // All work must have ended, and its events must be set. Must not be called on the stream's own thread.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  // Enqueues the work. Errors become errors of the event. If an input is neither ready nor has a signal of a stream,
  // the thread that makes the input ready enqueues the work.
  Event Submit(StreamWork work);

  // Returns the stream, which the first work or call makes.
  absl::StatusOr<hipStream_t> GetStream();

  // Whether the event is ready or a stream can wait for it, so that it needs no more of the host.
  static bool CanWaitFor(const Event& event);

  // Waits until all work that has been enqueued so far has ended. Returns false if there was none, or at the time
  // limit.
  bool AwaitEnqueued(std::chrono::steady_clock::time_point until);

 private:
  class StreamSignal;
  struct Item {
    Promise done;  // first, so that a dropped item releases the rest before it tells anyone
    StreamWork work;
    absl::Status started;  // the result of enqueuing it
    std::shared_ptr<StreamSignal> signal;
    PooledEvent host_event;  // recorded behind the work, if it is not null
    int64_t enqueued_ns = 0;
  };
  using Items = std::list<Item>;  // a list of one element can be moved to another without memory

  struct Inputs {
    absl::InlinedVector<std::shared_ptr<StreamSignal>, 4> signals;
    absl::InlinedVector<Event, 4> for_host, others;
    absl::Status failed;
  };
  static Inputs Sort(const StreamWork& work);
  // `item.done` is set if the event exists already.
  Event Enqueue(Items items);
  absl::Status Start(Item& item, const Inputs& inputs, bool* began) ABSL_EXCLUSIVE_LOCKS_REQUIRED(enqueue_mu_);
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(enqueue_mu_);
  static void End(Item& item, absl::Status status);
  absl::Status AwaitEnd(const Item& item);
  void Complete(Item& item);
  void RunThread();

  const HipApi& api_;
  const int device_;
  const std::string name_;
  EventPool *const events_, *const host_events_;
  const std::function<void(hipStream_t)> before_destroy_;
  Mutex enqueue_mu_;  // held while work is enqueued: what one work enqueues is together. Locked before mu_
  hipStream_t stream_ ABSL_GUARDED_BY(enqueue_mu_) = nullptr;
  std::thread thread_ ABSL_GUARDED_BY(enqueue_mu_);  // started by the first work
  Mutex mu_;
  CondVar changed_;
  Items items_ ABSL_GUARDED_BY(mu_);  // enqueued, in order
  uint64_t enqueued_ ABSL_GUARDED_BY(mu_) = 0, ended_ ABSL_GUARDED_BY(mu_) = 0;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  int64_t last_end_ns_ = 0;  // of the thread
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_STREAM_H_
