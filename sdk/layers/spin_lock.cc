#include "sdk/layers/spin_lock.h"

#include <sched.h>
#include <time.h>

namespace backplane::layers {

void SpinLock::Wait() {
  constexpr int kSpins = 64, kYields = 64;
  constexpr timespec kSleep = {0, 50000};
  for (int i = 0;; ++i) {
    if (!taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire)) return;
    if (i >= kSpins + kYields) {
      nanosleep(&kSleep, nullptr);
    } else if (i >= kSpins) {
      sched_yield();
    } else {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
}

}  // namespace backplane::layers
