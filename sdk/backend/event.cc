#include "sdk/backend/event.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace backplane {

struct Event::State {
  std::atomic<bool> ready{false};
  std::mutex mu;
  std::condition_variable cv;
  absl::Status status;                                                         // written once, before `ready`
  absl::InlinedVector<std::function<void(const absl::Status&)>, 1> callbacks;  // under mu
};

Event::Event() = default;

Event Event::Create() {
  Event e;
  e.state_ = std::make_shared<State>();
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
  // The caller's Event may be destroyed by a callback, or by whoever waits: hold the state until the end.
  std::shared_ptr<State> state = state_;
  absl::InlinedVector<std::function<void(const absl::Status&)>, 1> callbacks;
  {
    std::lock_guard<std::mutex> lock(state->mu);
    if (state->ready.load(std::memory_order_relaxed)) return;
    state->status = std::move(status);
    state->ready.store(true, std::memory_order_release);
    callbacks = std::move(state->callbacks);
    state->callbacks.clear();
    state->cv.notify_all();
  }
  for (auto& callback : callbacks) callback(state->status);
}

absl::Status Event::Await() const {
  if (state_ == nullptr) return absl::OkStatus();
  if (!state_->ready.load(std::memory_order_acquire)) {
    std::unique_lock<std::mutex> lock(state_->mu);
    state_->cv.wait(lock, [&] { return state_->ready.load(std::memory_order_relaxed); });
  }
  return state_->status;
}

void Event::OnReady(std::function<void(const absl::Status&)> callback) const {
  if (state_ == nullptr) return callback(absl::OkStatus());
  std::shared_ptr<State> state = state_;
  if (!state->ready.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(state->mu);
    if (!state->ready.load(std::memory_order_relaxed)) {
      state->callbacks.push_back(std::move(callback));
      return;
    }
  }
  callback(state->status);
}

Event Event::All(absl::Span<const Event> events) {
  struct Join {
    std::atomic<int64_t> pending;
    std::vector<Event> events;
    Event result = Event::Create();
    void Arrive() {
      if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      for (const Event& e : events) {
        if (absl::Status s = e.status(); !s.ok()) return result.Set(std::move(s));
      }
      result.Set();
    }
  };
  int64_t waiting = 0;
  const Event* last = nullptr;
  for (const Event& e : events) {
    if (!e.IsReady()) ++waiting, last = &e;
  }
  if (waiting == 0) {
    for (const Event& e : events) {
      if (e.state_ != nullptr && !e.state_->status.ok()) return e;
    }
    return Event();
  }
  if (waiting == 1 && events.size() == 1) return *last;
  auto join = std::make_shared<Join>();
  join->events.assign(events.begin(), events.end());
  // One more than there are events, so that nothing completes before all have been asked.
  join->pending = static_cast<int64_t>(events.size()) + 1;
  Event result = join->result;
  for (const Event& e : join->events) e.OnReady([join](const absl::Status&) { join->Arrive(); });
  join->Arrive();
  return result;
}

}  // namespace backplane
