// Waits for a change of a 32-bit word, and wakes those who wait, by Linux's futex call. A waiting thread sleeps, and a
// change costs nothing unless a thread may be asleep.
//
//   // The thread that waits:
//   while ((seen = word.load()) != wanted) WaitOnFutex(word, seen, FutexScope::kPrivate);
//   // The thread that changes the word:
//   word.store(wanted);
//   WakeFutex(word, FutexScope::kPrivate);
//
// Both functions may be called from any thread. They allocate nothing and do not throw.
#ifndef BACKPLANE_BASE_FUTEX_H_
#define BACKPLANE_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <optional>

namespace backplane {

// Whose threads wait for the word. Those who wait and those who wake must name the same scope.
enum class FutexScope : uint8_t {
  kPrivate,  // of this process only; quicker
  kShared,   // of any process that has mapped the word
};

enum class FutexResult : uint8_t {
  kWoken,     // possibly without a cause
  kChanged,   // the word differed from the expected value, so the thread did not sleep
  kTimedOut,  // the time limit was reached
  kRefused,   // the system cannot wait for this word
};

namespace futex_internal {

// A 32-bit atomic is the word itself, so its address may be given to the kernel, which only reads it.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

inline long Call(const std::atomic<uint32_t>& word, int operation, FutexScope scope, uint32_t value,
                 const timespec* limit) {
  if (scope == FutexScope::kPrivate) operation |= FUTEX_PRIVATE_FLAG;
  return syscall(SYS_futex, const_cast<uint32_t*>(reinterpret_cast<const uint32_t*>(&word)), operation, value, limit,
                 nullptr, 0);
}

}  // namespace futex_internal

// Sleeps while the word has the expected value, until it is woken or the limit is over. A word that is shared may be
// mapped for reading only.
inline FutexResult WaitOnFutex(const std::atomic<uint32_t>& word, uint32_t expected, FutexScope scope,
                               std::optional<std::chrono::nanoseconds> limit = std::nullopt) {
  timespec time{};
  if (limit) {
    const auto nanos = std::max(*limit, std::chrono::nanoseconds(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(nanos);
    time.tv_sec = static_cast<time_t>(seconds.count());
    time.tv_nsec = static_cast<long>((nanos - seconds).count());
  }
  if (futex_internal::Call(word, FUTEX_WAIT, scope, expected, limit ? &time : nullptr) == 0) return FutexResult::kWoken;
  switch (errno) {
    case EAGAIN:
      return FutexResult::kChanged;
    case ETIMEDOUT:
      return FutexResult::kTimedOut;
    case EINTR:
      return FutexResult::kWoken;
    default:
      return FutexResult::kRefused;
  }
}

// Wakes at most `count` of the threads that wait for the word. Change the word before, or they sleep again.
inline void WakeFutex(const std::atomic<uint32_t>& word, FutexScope scope, int count = INT_MAX) {
  (void)futex_internal::Call(word, FUTEX_WAKE, scope, static_cast<uint32_t>(count), nullptr);
}

}  // namespace backplane

#endif  // BACKPLANE_BASE_FUTEX_H_
