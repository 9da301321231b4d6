#include "sdk/layers/clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <mutex>

#include "absl/strings/string_view.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace backplane::layers {
namespace {

// Whether the kernel reads its clock off the counter. It does so only where the counters of all processors agree and go
// on at one rate whatever their frequency, and stops when it finds that they do not.
bool CounterTellsTime() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kPowerLeaf = 0x80000007, kInvariant = 1u << 8;
  if (__get_cpuid(kPowerLeaf, &a, &b, &c, &d) == 0 || (d & kInvariant) == 0) return false;
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[16] = {};
  const ssize_t n = read(fd, text, sizeof(text));
  close(fd);
  return n >= 4 && absl::string_view(text, 4) == "tsc\n";
#else
  return false;
#endif
}

struct Moment {
  Ticks ticks;
  int64_t nanos;
};

// Both clocks at one time. The narrowest of a few looks: a thread may be stopped between the two.
Moment Now() {
  Moment best{};
  Ticks width = 0;
  for (int i = 0; i < 5; ++i) {
    const Ticks before = NowTicks();
    const int64_t nanos = MonotonicNanos();
    const Ticks after = NowTicks();
    if (i > 0 && after - before >= width) continue;
    width = after - before;
    best = {before + width / 2, nanos};
  }
  return best;
}

}  // namespace

namespace internal {
bool g_counter_tells_time = false;
}

namespace {
Moment g_start{};
}

void StartClock() {
  static std::once_flag once;
  std::call_once(once, [] {
    internal::g_counter_tells_time = CounterTellsTime();
    g_start = Now();
  });
}

int64_t MonotonicNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

TickScale::TickScale() : nanos_per_tick_(1) {
  StartClock();
  if (!internal::g_counter_tells_time) return;
  // A clock that has just been started has no stretch of time yet to measure by.
  constexpr int64_t kShortest = 1000000;
  Moment now = Now();
  while (now.nanos - g_start.nanos < kShortest) now = Now();
  nanos_per_tick_ = static_cast<double>(now.nanos - g_start.nanos) / static_cast<double>(now.ticks - g_start.ticks);
}

int64_t TickScale::Nanos(Ticks ticks) const {
  if (!internal::g_counter_tells_time) return ticks;
  return g_start.nanos + static_cast<int64_t>(static_cast<double>(ticks - g_start.ticks) * nanos_per_tick_);
}

}  // namespace backplane::layers
