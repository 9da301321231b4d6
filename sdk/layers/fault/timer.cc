#include "sdk/layers/fault/timer.h"

#include <chrono>

#include "base/mutex.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {

Timer::~Timer() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Timer::At(int64_t due_ns, std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
    work_.emplace(due_ns, std::move(work));
  }
  changed_.NotifyAll();
}

void Timer::Drain() {
  MutexLock lock(mutex_);
  while (!work_.empty() || busy_) idle_.Wait(mutex_);
}

void Timer::Loop() {
  MutexLock lock(mutex_);
  while (true) {
    if (work_.empty()) {
      if (ending_) return;
      changed_.Wait(mutex_);
      continue;
    }
    const int64_t left = work_.begin()->first - ReadMonotonicNanos();
    if (left > 0 && !ending_) {
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(left));
      continue;
    }
    std::function<void()> work = std::move(work_.begin()->second);
    work_.erase(work_.begin());
    busy_ = true;
    lock.Unlock();
    work();
    work = nullptr;
    lock.Lock();
    busy_ = false;
    idle_.NotifyAll();
  }
}

}  // namespace backplane::layers
