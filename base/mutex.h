// A mutex whose use clang checks: annotate the fields that it guards with ABSL_GUARDED_BY(mu), and the functions that
// need it held with ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu). Other compilers ignore the annotations.
//
//   class Counter {
//    public:
//     void Add(int n) {
//       MutexLock lock(mu_);
//       total_ += n;
//       changed_.NotifyAll();
//     }
//     void AwaitAtLeast(int n) {
//       MutexLock lock(mu_);
//       while (total_ < n) changed_.Wait(mu_);
//     }
//
//    private:
//     Mutex mu_;
//     CondVar changed_;
//     int total_ ABSL_GUARDED_BY(mu_) = 0;
//   };
//
// The header needs only the standard library and abseil's annotations, so every folder and every plugin may use it.
#ifndef BACKPLANE_BASE_MUTEX_H_
#define BACKPLANE_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace backplane {

// Not recursive: a thread that holds the mutex must not lock it again.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  // Tells the analysis that the mutex is held, where it cannot see that. Does nothing at run time.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for a scope. Unlock() and Lock() release it for a part of the scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) mu_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    mu_.Unlock();
  }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mu_.Lock();
    held_ = true;
  }

 private:
  Mutex& mu_;
  bool held_ = true;
};

// A condition variable. The caller of a wait holds the mutex and checks its condition in a loop: wakeups may be
// spurious. The analysis sees the mutex as held throughout.
class CondVar {
 public:
  void Wait(Mutex& mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::unique_lock<std::mutex> lock(mu.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  // Returns false if the time limit was reached.
  template <typename Clock, typename Duration>
  bool WaitUntil(Mutex& mu, std::chrono::time_point<Clock, Duration> limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::unique_lock<std::mutex> lock(mu.mutex_, std::adopt_lock);
    const bool in_time = cv_.wait_until(lock, limit) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  template <typename Rep, typename Period>
  bool WaitFor(Mutex& mu, std::chrono::duration<Rep, Period> limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::unique_lock<std::mutex> lock(mu.mutex_, std::adopt_lock);
    const bool in_time = cv_.wait_for(lock, limit) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace backplane

#endif  // BACKPLANE_BASE_MUTEX_H_
