#include "sdk/backend/event.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace backplane {
namespace {

using Callback = std::function<void(const absl::Status&)>;
using Callbacks = absl::InlinedVector<Callback, 1>;

// The depth to which callbacks that set events may nest on the stack. Deeper ones are queued.
constexpr int kMaxNesting = 16;

// The callbacks that one thread runs.
class Runner {
 public:
  // Runs the callbacks now. If too many are nested in this thread already, runs them when the innermost has returned.
  void Run(Callbacks callbacks, const absl::Status& status) {
    if (nesting_ == kMaxNesting && Queue(callbacks, status)) return;
    ++nesting_;
    RunAll(callbacks, status);
    // Only the innermost allowed level queues callbacks, so this level runs everything that is queued.
    if (nesting_ == kMaxNesting) {
      while (RunQueued()) {
      }
    }
    --nesting_;
  }

  // Runs the oldest queued callbacks. Returns false if there are none.
  bool RunQueued() {
    if (first_ == queue_.size()) return false;
    Queued next = std::move(queue_[first_++]);
    if (first_ == queue_.size()) {
      queue_.clear();
      first_ = 0;
    }
    RunAll(next.callbacks, next.status);
    return true;
  }

  bool active() const { return nesting_ > 0; }

 private:
  struct Queued {
    Callbacks callbacks;
    absl::Status status;
  };

  // Returns false if memory has run out.
  bool Queue(Callbacks& callbacks, const absl::Status& status) {
    try {
      queue_.emplace_back();
    } catch (...) {
      return false;
    }
    queue_.back().callbacks = std::move(callbacks);
    queue_.back().status = status;
    return true;
  }

  static void RunAll(Callbacks& callbacks, const absl::Status& status) {
    for (Callback& callback : callbacks) {
      try {
        callback(status);
      } catch (...) {  // there is no caller to report to; the callback's promises become errors
      }
      callback = nullptr;
    }
  }

  int nesting_ = 0;
  std::vector<Queued> queue_;
  size_t first_ = 0;  // number of callbacks that have run
};

Runner& ThreadRunner() {
  static thread_local Runner runner;
  return runner;
}

}  // namespace

struct Event::State {
  std::atomic<bool> ready{false};
  Mutex mu;
  CondVar cv;
  absl::Status status;  // written once, before `ready`
  Callbacks callbacks ABSL_GUARDED_BY(mu);
  std::shared_ptr<Signal> signal ABSL_GUARDED_BY(mu);

  ~State() {
    if (callbacks.empty()) return;
    absl::Status dropped(absl::StatusCode::kAborted, "");
    try {
      dropped = absl::AbortedError("the event was dropped");
    } catch (...) {  // no memory for the message; the code remains
    }
    ThreadRunner().Run(std::move(callbacks), dropped);
  }
};

Event::Event() = default;

Event Event::Create() {
  Event e;
  e.state_ = std::make_shared<State>();
  return e;
}

Event Event::Create(std::shared_ptr<Signal> signal) {
  Event e = Create();
  MutexLock lock(e.state_->mu);
  e.state_->signal = std::move(signal);
  return e;
}

Event Event::Ready(absl::Status status) {
  Event e;
  if (status.ok()) return e;
  e.state_ = std::make_shared<State>();
  e.state_->status = std::move(status);
  e.state_->ready.store(true, std::memory_order_release);
  return e;
}

bool Event::IsReady() const { return state_ == nullptr || state_->ready.load(std::memory_order_acquire); }

absl::Status Event::status() const { return state_ == nullptr ? absl::OkStatus() : state_->status; }

void Event::Set(absl::Status status) const {
  if (state_ == nullptr) return;
  // A callback or a waiting thread may destroy the caller's Event, so hold the state until the end.
  std::shared_ptr<State> state = state_;
  Callbacks callbacks;
  std::shared_ptr<Signal> signal;  // destroyed after the lock is released
  {
    MutexLock lock(state->mu);
    if (state->ready.load(std::memory_order_relaxed)) return;
    signal = std::move(state->signal);
    state->status = std::move(status);
    state->ready.store(true, std::memory_order_release);
    callbacks = std::move(state->callbacks);
    state->callbacks.clear();
    state->cv.NotifyAll();
  }
  if (!callbacks.empty()) ThreadRunner().Run(std::move(callbacks), state->status);
}

absl::Status Event::Await() const {
  if (state_ == nullptr) return absl::OkStatus();
  if (!state_->ready.load(std::memory_order_acquire)) {
    std::shared_ptr<State> state = state_;  // a callback may destroy the caller's Event
    // This event may depend on callbacks that are queued in this thread, so run them first.
    Runner& runner = ThreadRunner();
    while (!state->ready.load(std::memory_order_acquire) && runner.RunQueued()) {
    }
    MutexLock lock(state->mu);
    while (!state->ready.load(std::memory_order_relaxed)) state->cv.Wait(state->mu);
    return state->status;
  }
  return state_->status;
}

void Event::OnReady(Callback callback) const {
  std::shared_ptr<State> state = state_;
  if (state != nullptr && !state->ready.load(std::memory_order_acquire)) {
    MutexLock lock(state->mu);
    if (!state->ready.load(std::memory_order_relaxed)) {
      state->callbacks.push_back(std::move(callback));
      return;
    }
  }
  Callbacks now;
  now.push_back(std::move(callback));
  ThreadRunner().Run(std::move(now), state == nullptr ? absl::OkStatus() : state->status);
}

std::shared_ptr<Signal> Event::signal() const {
  if (IsReady()) return nullptr;
  MutexLock lock(state_->mu);
  return state_->signal;
}

bool Event::InCallback() { return ThreadRunner().active(); }

Event Event::All(absl::Span<const Event> events) {
  struct Join {
    std::atomic<int64_t> pending;
    // By event. Not the events themselves: they hold the join by their callbacks, so that events which are dropped
    // would never be destroyed, and nobody would hear of it.
    std::vector<absl::Status> statuses;
    Event result = Event::Create();
    void Arrive() {
      if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      for (absl::Status& s : statuses) {
        if (!s.ok()) return result.Set(std::move(s));
      }
      result.Set();
    }
  };
  int64_t waiting = 0;
  const Event* last = nullptr;
  bool others_ok = true;  // only the last event may have an error
  for (const Event& e : events) {
    if (!e.IsReady()) {
      ++waiting, last = &e;
    } else if (!e.status().ok()) {
      others_ok = false;
    }
  }
  if (waiting == 0) {
    for (const Event& e : events) {
      if (e.state_ != nullptr && !e.state_->status.ok()) return e;
    }
    return Event();
  }
  if (waiting == 1 && others_ok) return *last;
  auto join = std::make_shared<Join>();
  join->statuses.resize(events.size());
  // Starts at one more than the number of events, so that the result is not set before all of them have been visited.
  join->pending = static_cast<int64_t>(events.size()) + 1;
  Event result = join->result;
  for (size_t k = 0; k < events.size(); ++k) {
    events[k].OnReady([join, k](const absl::Status& status) {
      join->statuses[k] = status;
      join->Arrive();
    });
  }
  join->Arrive();
  return result;
}

struct Promise::Keeper {
  Event event;
  const char* what;
  Keeper(const char* w, std::shared_ptr<Signal> signal) : event(Event::Create(std::move(signal))), what(w) {}
  ~Keeper() {
    if (event.IsReady()) return;
    absl::Status broken(absl::StatusCode::kAborted, "");
    try {
      broken = absl::AbortedError(absl::StrCat(what, ": it was dropped before it was done"));
    } catch (...) {  // no memory for the message; the code remains
    }
    event.Set(std::move(broken));
  }
};

Promise::Promise() = default;
Promise::Promise(const char* what, std::shared_ptr<Signal> signal)
    : keeper_(std::make_shared<const Keeper>(what, std::move(signal))) {}
Event Promise::event() const { return keeper_ == nullptr ? Event() : keeper_->event; }

}  // namespace backplane
