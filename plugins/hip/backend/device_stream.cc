#include "plugins/hip/backend/device_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/operation_trace.h"

namespace backplane::hip {

hipError_t MakeStream(const HipApi& api, hipStream_t* stream) {
  return api.hipStreamCreateWithFlags(stream, kStreamNonBlocking);
}
hipError_t DestroyStream(const HipApi& api, hipStream_t stream) { return api.hipStreamDestroy(stream); }
hipError_t MakeEvent(const HipApi& api, hipEvent_t* event) {
  return api.hipEventCreateWithFlags(event, kEventBlockingSync | kEventDisableTiming);
}
// With kEventBlockingSync and another flag AMD's runtime may spin.
hipError_t MakeHostEvent(const HipApi& api, hipEvent_t* event) {
  return api.hipEventCreateWithFlags(
      event, api.platform == Platform::kNvidia ? kEventBlockingSync | kEventDisableTiming : kEventBlockingSync);
}
hipError_t DestroyEvent(const HipApi& api, hipEvent_t event) { return api.hipEventDestroy(event); }

absl::Status DrainStream(const HipApi& api, hipStream_t stream) {
  absl::Status status = ToStatus(api.hipStreamSynchronize(stream), "waiting for the device");
  if (!status.ok()) (void)api.hipStreamSynchronize(stream);
  return status;
}

// An event of the runtime that was recorded after some work. Others may wait for it as long as they hold the signal.
class DeviceStream::StreamSignal : public Signal {
 public:
  static constexpr char kKind = 0;
  StreamSignal(const DeviceStream* stream, EventPool* pool, hipEvent_t event)
      : Signal(&kKind), stream_(stream), pool_(pool), event_(event) {}
  ~StreamSignal() override { pool_->Return(event_); }
  const DeviceStream* stream() const { return stream_; }
  hipEvent_t event() const { return event_; }
  // Whether the event was recorded. Constant once the signal is visible to others.
  bool recorded = false;

 private:
  const DeviceStream* const stream_;
  EventPool* const pool_;
  const hipEvent_t event_;
};

DeviceStream::DeviceStream(const HipApi& api, int device, const char* name, EventPool* events, EventPool* host_events,
                           std::function<void(hipStream_t)> before_destroy)
    : api_(api),
      device_(device),
      name_(absl::StrCat("device ", device, " ", name)),
      events_(events),
      host_events_(host_events),
      before_destroy_(std::move(before_destroy)) {}

DeviceStream::~DeviceStream() {
  std::thread thread;
  {
    MutexLock enqueuing(enqueue_mu_);
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  MutexLock enqueuing(enqueue_mu_);
  if (stream_ == nullptr) return;
  const ScopedDevice current(api_, device_);
  if (before_destroy_ != nullptr) before_destroy_(stream_);
  (void)DestroyStream(api_, stream_);
}

absl::StatusOr<hipStream_t> DeviceStream::GetStream() {
  MutexLock enqueuing(enqueue_mu_);
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  RETURN_IF_ERROR(Prepare());
  return stream_;
}

bool DeviceStream::CanWaitFor(const Event& event) {
  const std::shared_ptr<StreamSignal> signal = FindSignal<StreamSignal>(event);
  return (signal != nullptr && signal->recorded) || event.IsReady();
}

DeviceStream::Inputs DeviceStream::Sort(const StreamWork& work) {
  Inputs inputs;
  for (const Event& input : work.inputs) {
    // The signal is taken before the event is asked whether it is ready, because a ready event has none any more.
    std::shared_ptr<StreamSignal> signal = FindSignal<StreamSignal>(input);
    if (signal != nullptr && signal->recorded) {
      inputs.signals.push_back(std::move(signal));
    } else if (!input.IsReady()) {
      inputs.for_host.push_back(input);
      continue;
    } else if (!input.status().ok() && inputs.failed.ok()) {
      inputs.failed = input.status();
    }
    inputs.others.push_back(input);
  }
  return inputs;
}

Event DeviceStream::Submit(StreamWork work) {
  Items items;
  const absl::StatusOr<Event> done = CatchExceptions([&]() -> absl::StatusOr<Event> {
    items.emplace_back();
    items.front().work = std::move(work);
    Inputs inputs = Sort(items.front().work);
    if (inputs.for_host.empty() || !inputs.failed.ok()) return Enqueue(std::move(items));
    items.front().done = Promise(items.front().work.what);
    Event event = items.front().done.event();
    // Work that waits for an event must not hold it: nobody would learn that the event was dropped.
    items.front().work.inputs = std::move(inputs.others);
    auto waiting = std::make_shared<Items>(std::move(items));
    Event::All(inputs.for_host).OnReady([this, waiting](const absl::Status& status) {
      Items now = std::move(*waiting);
      if (status.ok()) {
        (void)Enqueue(std::move(now));
      } else {
        End(now.front(), status);
      }
    });
    return event;
  });
  if (done.ok()) return *done;
  if (!items.empty()) End(items.front(), done.status());
  return Event::Ready(done.status());
}

absl::Status DeviceStream::Prepare() {
  if (!thread_.joinable()) {
    RETURN_IF_ERROR(Fault(FaultSite::kThread));
    std::thread thread;
    RETURN_IF_ERROR(CatchExceptions([&] { thread = std::thread([this] { RunThread(); }); }));
    thread_ = std::move(thread);
  }
  if (stream_ == nullptr) RETURN_IF_ERROR(ToStatus(MakeStream(api_, &stream_), "making a stream"));
  return absl::OkStatus();
}

absl::Status DeviceStream::Start(Item& item, const Inputs& inputs, bool* began) {
  RETURN_IF_ERROR(Prepare());
  ASSIGN_OR_RETURN(hipEvent_t event, events_->Take());
  item.signal = std::make_shared<StreamSignal>(this, events_, event);
  ASSIGN_OR_RETURN(const hipEvent_t host_event, host_events_->Take());
  PooledEvent for_host(host_events_, host_event);
  // An event that others can see already gets no signal.
  if (item.done.event().IsReady()) item.done = Promise(item.work.what, item.signal);
  for (const std::shared_ptr<StreamSignal>& signal : inputs.signals) {
    if (signal->stream() == this) continue;
    RETURN_IF_ERROR(ToStatus(api_.hipStreamWaitEvent(stream_, signal->event(), 0), "waiting for a stream"));
  }
  *began = true;
  const hipStream_t stream = stream_;
  item.started = CatchExceptions([&] { return item.work.start(stream); });
  const absl::Status recorded = ToStatus(api_.hipEventRecord(event, stream_), "recording an event");
  item.signal->recorded = recorded.ok();
  if (item.started.ok()) item.started = recorded;
  // Without this one the host waits for the whole stream.
  if (recorded.ok() && api_.hipEventRecord(host_event, stream_) == hipSuccess) item.host_event = std::move(for_host);
  return absl::OkStatus();
}

Event DeviceStream::Enqueue(Items items) {
  Item& item = items.front();
  const Inputs inputs = Sort(item.work);
  absl::Status status = inputs.failed;
  bool began = false;
  if (status.ok()) {
    MutexLock enqueuing(enqueue_mu_);
    const ScopedDevice current(api_, device_);
    status = current.status();
    if (status.ok())
      status = CatchExceptions([&] {
        enqueue_mu_.AssertHeld();
        return Start(item, inputs, &began);
      });
    if (began) {
      if (OperationTrace::Get().Active()) item.enqueued_ns = OperationTrace::NowNs();
      const Event done = item.done.event();
      MutexLock lock(mu_);
      items_.splice(items_.end(), items);
      ++enqueued_;
      changed_.NotifyAll();
      return done;
    }
  }
  const Event ready = Event::Ready(status);
  End(item, std::move(status));
  return ready;
}

void DeviceStream::End(Item& item, absl::Status status) {
  const Promise done = std::move(item.done);
  if (item.work.ended) (void)CatchExceptions([&] { item.work.ended(status); });
  item.work = {};
  item.signal.reset();
  done.Set(std::move(status));
}

absl::Status DeviceStream::AwaitEnd(const Item& item) {
  const ScopedDevice current(api_, device_);
  absl::Status status = current.status();
  if (status.ok() && item.host_event.get() != nullptr) {
    status = ToStatus(api_.hipEventSynchronize(item.host_event.get()), "waiting for the device");
    if (status.ok()) return status;
  }
  // There is no event, or the runtime refused the wait. The error stays, because it may be the only report of a
  // failure.
  hipStream_t stream;
  {
    MutexLock enqueuing(enqueue_mu_);
    stream = stream_;
  }
  absl::Status drained = DrainStream(api_, stream);
  return status.ok() ? drained : status;
}

void DeviceStream::Complete(Item& item) {
  absl::Status status = CatchExceptions([&] { return AwaitEnd(item); });
  if (!item.started.ok()) status = item.started;
  // The work ran even if an input failed, as the device does not know. The first failure is reported. Inputs with
  // signals were enqueued before this work, so their events are set without it.
  for (const Event& input : item.work.inputs) {
    absl::Status failed = input.Await();
    if (failed.ok()) continue;
    status = std::move(failed);
    break;
  }
  if (status.ok() && item.work.finish) status = CatchExceptions(item.work.finish);
  OperationTrace& trace = OperationTrace::Get();
  if (trace.Active() && !item.work.program.empty() && item.enqueued_ns > 0) {
    // The device does the work of a stream in its order.
    const int64_t start = std::max(item.enqueued_ns, last_end_ns_);
    last_end_ns_ = OperationTrace::NowNs();
    (void)CatchExceptions([&] {
      trace.RecordOnLine(trace.GetLine(name_), device_, true, item.work.program, item.work.program, start,
                         last_end_ns_);
    });
  }
  End(item, std::move(status));
}

void DeviceStream::RunThread() {
  MutexLock lock(mu_);
  while (true) {
    while (items_.empty() && !closing_) changed_.Wait(mu_);
    if (items_.empty()) return;
    Items item;
    item.splice(item.end(), items_, items_.begin());
    lock.Unlock();
    Complete(item.front());
    item.clear();
    lock.Lock();
    ++ended_;
    changed_.NotifyAll();
  }
}

bool DeviceStream::AwaitEnqueued(std::chrono::steady_clock::time_point until) {
  MutexLock lock(mu_);
  const uint64_t last = enqueued_;
  if (ended_ == last) return false;
  while (ended_ < last) {
    if (!changed_.WaitUntil(mu_, until) && ended_ < last) return false;
  }
  return true;
}

}  // namespace backplane::hip
