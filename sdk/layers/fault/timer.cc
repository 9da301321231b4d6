#include "sdk/layers/fault/timer.h"

#include <chrono>

#include "sdk/layers/layer.h"

namespace backplane::layers {

Timer::~Timer() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Timer::At(int64_t due_ns, std::function<void()> work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
    work_.emplace(due_ns, std::move(work));
  }
  changed_.notify_all();
}

void Timer::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait(lock, [this] { return work_.empty() && !busy_; });
}

void Timer::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (work_.empty()) {
      if (ending_) return;
      changed_.wait(lock);
      continue;
    }
    const int64_t left = work_.begin()->first - MonotonicNanos();
    if (left > 0 && !ending_) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left));
      continue;
    }
    std::function<void()> work = std::move(work_.begin()->second);
    work_.erase(work_.begin());
    busy_ = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    busy_ = false;
    idle_.notify_all();
  }
}

}  // namespace backplane::layers
