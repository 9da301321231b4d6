// A lock for sections of a few dozen instructions, which many threads enter and seldom meet in.
#ifndef BACKPLANE_SDK_LAYERS_SPIN_LOCK_H_
#define BACKPLANE_SDK_LAYERS_SPIN_LOCK_H_

#include <atomic>

namespace backplane::layers {

// For std::lock_guard. A third of the cost of a std::mutex that nobody else holds, and one byte of the data it guards.
// Whoever has to wait spins a little, then lets others run, then sleeps: the holder may have been taken off its
// processor. Not fair, not recursive.
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
