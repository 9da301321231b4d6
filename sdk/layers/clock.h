// The clock for calls, which is read twice per call. If the system derives its time from the processor's time stamp
// counter, the counter is read directly, which takes a third of the time of a system clock call. Otherwise it is the
// system's clock.
#ifndef BACKPLANE_SDK_LAYERS_CLOCK_H_
#define BACKPLANE_SDK_LAYERS_CLOCK_H_

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace backplane::layers {

// Returns nanoseconds of the system's monotonic clock.
int64_t ReadMonotonicNanos();

// A point in time in unspecified units. If one thread's call causes something in another thread, the time there is not
// earlier, as with the system's clock.
using Ticks = int64_t;

namespace internal {
extern bool g_counter_tells_time;
}

// Chooses the clock. Must be called before the first ReadTicks of the process; Stack::Create calls it. Further calls do
// nothing.
void StartClock();

inline Ticks ReadTicks() {
#if defined(__x86_64__)
  if (internal::g_counter_tells_time) return static_cast<Ticks>(__rdtsc());
#endif
  return ReadMonotonicNanos();
}

// Converts ticks to nanoseconds of ReadMonotonicNanos. The ratio is measured between StartClock and the creation of
// this object; for times in between it is exact to some tens of nanoseconds. Creating one is cheap enough for each
// write of a file, but not for each call. Immutable.
class TickScale {
 public:
  TickScale();
  int64_t ToNanos(Ticks ticks) const;

 private:
  double nanos_per_tick_;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_CLOCK_H_
