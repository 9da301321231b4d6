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

// Whether the kernel's clock uses the time stamp counter. It does so only if the counters of all processors agree and
// have a constant rate, and stops if they turn out to differ.
bool KernelClockUsesCounter() {
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

struct ClockSample {
  Ticks ticks;
  int64_t nanos;
};

// Reads both clocks at one time. Takes the reading with the smallest gap of several, because the thread may be
// preempted in between.
ClockSample Now() {
  ClockSample best{};
  Ticks width = 0;
  for (int i = 0; i < 5; ++i) {
    const Ticks before = ReadTicks();
    const int64_t nanos = ReadMonotonicNanos();
    const Ticks after = ReadTicks();
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
ClockSample g_start{};
}

void StartClock() {
  static std::once_flag once;
  std::call_once(once, [] {
    internal::g_counter_tells_time = KernelClockUsesCounter();
    g_start = Now();
  });
}

int64_t ReadMonotonicNanos() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

TickScale::TickScale() : nanos_per_tick_(1) {
  StartClock();
  if (!internal::g_counter_tells_time) return;
  // If the clock was started just now, there is no interval to measure the rate.
  constexpr int64_t kShortest = 1000000;
  ClockSample now = Now();
  while (now.nanos - g_start.nanos < kShortest) now = Now();
  nanos_per_tick_ = static_cast<double>(now.nanos - g_start.nanos) / static_cast<double>(now.ticks - g_start.ticks);
}

int64_t TickScale::ToNanos(Ticks ticks) const {
  if (!internal::g_counter_tells_time) return ticks;
  return g_start.nanos + static_cast<int64_t>(static_cast<double>(ticks - g_start.ticks) * nanos_per_tick_);
}

}  // namespace backplane::layers
