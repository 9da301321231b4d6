// The time of calls, read twice for each: on processors whose counter the system itself tells the time by, that counter
// (a third of the cost of asking the system), else the system's clock.
#ifndef BACKPLANE_SDK_LAYERS_CLOCK_H_
#define BACKPLANE_SDK_LAYERS_CLOCK_H_

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace backplane::layers {

// Nanoseconds of the system's monotonic clock.
int64_t MonotonicNanos();

// A point in time in units of its own. Never goes backwards from one thread's call to what it causes in another's, as
// the system's clock does not.
using Ticks = int64_t;

namespace internal {
extern bool g_counter_tells_time;
}

// Finds out how time is told. Before the first NowTicks of the process; Stack::Create calls it. Again: nothing.
void StartClock();

inline Ticks NowTicks() {
#if defined(__x86_64__)
  if (internal::g_counter_tells_time) return static_cast<Ticks>(__rdtsc());
#endif
  return MonotonicNanos();
}

// What ticks are in nanoseconds of MonotonicNanos, measured from StartClock to the making of this
// object: exact to some tens of nanoseconds for times between the two. Cheap enough to be made for each writing of a
// file, not for each call. Immutable.
class TickScale {
 public:
  TickScale();
  int64_t Nanos(Ticks ticks) const;

 private:
  double nanos_per_tick_;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_CLOCK_H_
