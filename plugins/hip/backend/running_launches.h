// The launches of a device that run on streams of their own, with the help of a thread.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_RUNNING_LAUNCHES_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_RUNNING_LAUNCHES_H_

#include <chrono>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace backplane::hip {

// Counts them, so that an allocation can wait for the memory that one of them holds. Thread-safe.
class RunningLaunches {
 public:
  // One launch, from when it may start until its memory is released and its events are set.
  class Token {
   public:
    Token() = default;
    explicit Token(std::shared_ptr<RunningLaunches> all) : all_(std::move(all)) { all_->Begin(); }
    Token(Token&&) = default;
    Token& operator=(Token&& other) {
      std::swap(all_, other.all_);
      return *this;
    }
    ~Token() {
      if (all_ != nullptr) all_->End();
    }

   private:
    std::shared_ptr<RunningLaunches> all_;
  };

  // While it exists, this thread runs one of the launches, so an allocation on it must not wait for that launch.
  class OnThisThread {
   public:
    explicit OnThisThread(const RunningLaunches& all) : before_(std::exchange(here_, &all)) {}
    ~OnThisThread() { here_ = before_; }
    OnThisThread(const OnThisThread&) = delete;
    OnThisThread& operator=(const OnThisThread&) = delete;

   private:
    const RunningLaunches* const before_;
  };

  // Waits until a launch ends. Returns false if there is none that does not wait for memory itself, or at the time
  // limit.
  bool AwaitOne(std::chrono::steady_clock::time_point until) {
    MutexLock lock(mu_);
    const uint64_t ended = ended_;
    const int own = here_ == this ? 1 : 0;
    waiting_ += own;
    changed_.NotifyAll();
    bool in_time = true;
    while (ended_ == ended && running_ > waiting_ && in_time) in_time = changed_.WaitUntil(mu_, until);
    waiting_ -= own;
    return ended_ != ended;
  }

 private:
  void Begin() {
    MutexLock lock(mu_);
    ++running_;
  }
  void End() {
    MutexLock lock(mu_);
    --running_;
    ++ended_;
    changed_.NotifyAll();
  }

  static inline thread_local const RunningLaunches* here_ = nullptr;
  Mutex mu_;
  CondVar changed_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;  // of the running ones: those that wait for memory
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_RUNNING_LAUNCHES_H_
