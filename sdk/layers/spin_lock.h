// A lock for short sections with little contention.
#ifndef BACKPLANE_SDK_LAYERS_SPIN_LOCK_H_
#define BACKPLANE_SDK_LAYERS_SPIN_LOCK_H_

#include <atomic>

namespace backplane::layers {

// Used with std::lock_guard. It has one byte, and locking it without contention takes a third of the time that a
// std::mutex takes. A thread that has to wait spins for a while, then yields, then sleeps, because the holder may have
// been preempted. Not fair, not recursive.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      Wait();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  void Wait();
  std::atomic<bool> taken_{false};
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_SPIN_LOCK_H_
