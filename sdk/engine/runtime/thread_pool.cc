#include "sdk/engine/runtime/thread_pool.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/futex.h"
#include "base/subnormals.h"
#include "sdk/backend/host_limits.h"

namespace backplane::engine {
namespace {

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

int64_t NowNanos() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// A yield that takes this long let somebody else run: the core is wanted, spinning on it only delays that thread.
constexpr int64_t kYieldMeansOversubscribedNanos = 20'000;
// After that, no spinning for this long.
constexpr int64_t kBackOffNanos = 5'000'000;
// An ActiveScope keeps workers awake for at most this long without any work.
constexpr int64_t kMaxActiveSpinNanos = 2'000'000;
constexpr int kPausesBetweenClockReads = 32;
constexpr int kMaxJobs = 64;

// Job word: participants in the low bits, and two flags.
constexpr uint32_t kActive = 1u << 31;
constexpr uint32_t kCallerSleeps = 1u << 30;
constexpr uint32_t kCountMask = kCallerSleeps - 1;

struct alignas(64) Job {
  // Who is in here. A worker may read the rest of the job only while it is counted.
  std::atomic<uint32_t> word{0};
  const absl::FunctionRef<void(int64_t, int)>* fn = nullptr;
  int64_t num_chunks = 0;
  Subnormals subnormals = Subnormals::kKeep;  // of the caller
  // The first exception of a chunk: written by whoever sets `failed`, read by the caller after all have left.
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  alignas(64) std::atomic<int64_t> next{0};
};

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(const Options& options)
      : num_threads(options.num_threads > 0 ? options.num_threads : CountAvailableCpus()),
        spin_nanos(int64_t{std::max(0, options.spin_microseconds)} * 1000),
        on_thread_start(options.on_thread_start) {
    workers.reserve(num_threads - 1);
    try {
      for (int i = 1; i < num_threads; ++i) workers.emplace_back([this, i] { WorkerLoop(i); });
    } catch (const std::system_error&) {  // the system has no more threads: those that are there do the work
      num_threads = static_cast<int>(workers.size()) + 1;
    }
  }

  ~Impl() {
    stopping.store(true, std::memory_order_seq_cst);
    epoch.fetch_add(1, std::memory_order_seq_cst);
    WakeFutex(epoch, FutexScope::kPrivate);
    for (std::thread& t : workers) t.join();
  }

  // --- data-parallel workers ------------------------------------------------------------------------------------

  // Takes chunks until there are none.
  static void RunChunks(Job& job, int slot) {
    const int64_t num_chunks = job.num_chunks;
    for (;;) {
      const int64_t chunk = job.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= num_chunks) return;
      try {
        (*job.fn)(chunk, slot);
      } catch (...) {  // it would end the process on a worker; the caller gets it
        if (!job.failed.exchange(true, std::memory_order_relaxed)) job.error = std::current_exception();
        job.next.store(num_chunks, std::memory_order_relaxed);  // the rest is not begun
        return;
      }
    }
  }

  // Joins every open job once. True if there was a chunk to run.
  bool RunOpenJobs(int slot) {
    bool helped = false;
    uint64_t mask = active_jobs.load(std::memory_order_acquire);
    while (mask != 0) {
      const int index = std::countr_zero(mask);
      mask &= mask - 1;
      Job& job = jobs[index];
      uint32_t word = job.word.load(std::memory_order_acquire);
      bool joined = false;
      while ((word & kActive) != 0) {
        if (job.word.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
          joined = true;
          break;
        }
      }
      if (!joined) continue;
      if (job.next.load(std::memory_order_relaxed) < job.num_chunks) {
        const ScopedSubnormals mode(job.subnormals);
        RunChunks(job, slot);
        helped = true;
      }
      const uint32_t before = job.word.fetch_sub(1, std::memory_order_acq_rel);
      if ((before & kCountMask) == 1 && (before & kCallerSleeps) != 0) WakeFutex(job.word, FutexScope::kPrivate, 1);
    }
    return helped;
  }

  void WorkerLoop(int slot) {
    if (on_thread_start != nullptr) on_thread_start();
    while (!stopping.load(std::memory_order_acquire)) {
      const uint32_t seen = epoch.load(std::memory_order_seq_cst);
      if (RunOpenJobs(slot)) continue;
      if (SpinForEpoch(seen)) continue;
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      if (epoch.load(std::memory_order_seq_cst) == seen) WaitOnFutex(epoch, seen, FutexScope::kPrivate);
      sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  // True as soon as the epoch differs from `seen`; false when it is time to sleep.
  bool SpinForEpoch(uint32_t seen) {
    int64_t now = NowNanos();
    if (now < no_spin_until.load(std::memory_order_relaxed)) return false;
    const int64_t start = now;
    int64_t last_yield = now;
    for (;;) {
      const int64_t idle_nanos = spin_nanos.load(std::memory_order_relaxed);
      for (int i = 0; i < kPausesBetweenClockReads; ++i) {
        if (epoch.load(std::memory_order_acquire) != seen) return true;
        Pause();
      }
      now = NowNanos();
      const bool active = idle_nanos > 0 && active_scopes.load(std::memory_order_relaxed) > 0;
      if (now - start > (active ? kMaxActiveSpinNanos : idle_nanos)) return false;
      if (now - last_yield > std::max<int64_t>(idle_nanos, 10'000)) {
        sched_yield();
        last_yield = NowNanos();
        if (last_yield - now > kYieldMeansOversubscribedNanos) {
          no_spin_until.store(last_yield + kBackOffNanos, std::memory_order_relaxed);
          return epoch.load(std::memory_order_acquire) != seen;
        }
      }
    }
  }

  // Waits until no worker is in the job; chunks are exhausted and the job is closed by then.
  void Join(Job& job) {
    uint32_t word = job.word.load(std::memory_order_acquire);
    if ((word & kCountMask) == 0) return;
    const int64_t start = NowNanos();
    for (;;) {
      for (int i = 0; i < kPausesBetweenClockReads; ++i) {
        word = job.word.load(std::memory_order_acquire);
        if ((word & kCountMask) == 0) return;
        Pause();
      }
      if (NowNanos() - start > spin_nanos.load(std::memory_order_relaxed)) break;
    }
    sched_yield();
    for (;;) {
      word = job.word.load(std::memory_order_acquire);
      if ((word & kCountMask) == 0) return;
      if ((word & kCallerSleeps) == 0) {
        if (!job.word.compare_exchange_weak(word, word | kCallerSleeps, std::memory_order_acq_rel)) continue;
        word |= kCallerSleeps;
      }
      WaitOnFutex(job.word, word, FutexScope::kPrivate);
    }
  }

  void ParallelFor(int64_t num_chunks, absl::FunctionRef<void(int64_t, int)> fn) {
    if (num_chunks <= 0) return;
    int index = -1;
    if (num_chunks > 1 && num_threads > 1) index = ClaimJob();
    if (index < 0) {
      for (int64_t chunk = 0; chunk < num_chunks; ++chunk) fn(chunk, 0);
      return;
    }
    Job& job = jobs[index];
    job.fn = &fn;
    job.num_chunks = num_chunks;
    job.subnormals = GetCurrentSubnormals();
    job.next.store(0, std::memory_order_relaxed);
    job.word.store(kActive, std::memory_order_release);
    active_jobs.fetch_or(uint64_t{1} << index, std::memory_order_seq_cst);
    Notify(static_cast<int>(std::min<int64_t>(num_chunks - 1, num_threads - 1)));
    RunChunks(job, 0);
    active_jobs.fetch_and(~(uint64_t{1} << index), std::memory_order_acq_rel);
    job.word.fetch_and(~kActive, std::memory_order_acq_rel);
    Join(job);
    job.word.store(0, std::memory_order_relaxed);
    std::exception_ptr error;
    if (job.failed.load(std::memory_order_relaxed)) [[unlikely]] {
      error = std::exchange(job.error, nullptr);
      job.failed.store(false, std::memory_order_relaxed);
    }
    free_jobs.fetch_or(uint64_t{1} << index, std::memory_order_release);
    if (error != nullptr) [[unlikely]]
      std::rethrow_exception(error);
  }

  int ClaimJob() {
    uint64_t mask = free_jobs.load(std::memory_order_relaxed);
    while (mask != 0) {
      if (free_jobs.compare_exchange_weak(mask, mask & (mask - 1), std::memory_order_acquire))
        return std::countr_zero(mask);
    }
    return -1;
  }

  void Notify(int wanted) {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0) WakeFutex(epoch, FutexScope::kPrivate, wanted);
  }

  int num_threads;                  // fixed once the constructor is done
  std::atomic<int64_t> spin_nanos;  // set to 0 by StopSpinning
  void (*const on_thread_start)();

  alignas(64) std::atomic<uint32_t> epoch{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stopping{false};
  alignas(64) std::atomic<uint64_t> active_jobs{0};
  alignas(64) std::atomic<uint64_t> free_jobs{~uint64_t{0}};
  alignas(64) std::atomic<int> active_scopes{0};
  std::atomic<int64_t> no_spin_until{0};
  Job jobs[kMaxJobs];
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool() : ThreadPool(Options()) {}
ThreadPool::ThreadPool(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::num_threads() const { return impl_->num_threads; }

void ThreadPool::StopSpinning() { impl_->spin_nanos.store(0, std::memory_order_relaxed); }

void ThreadPool::WakeUp() {
  if (impl_->spin_nanos.load(std::memory_order_relaxed) == 0) return;  // they would go to sleep again at once
  if (impl_->sleepers.load(std::memory_order_seq_cst) > 0) impl_->Notify(impl_->num_threads - 1);
}

void ThreadPool::ParallelFor(int64_t num_chunks, absl::FunctionRef<void(int64_t, int)> fn) {
  impl_->ParallelFor(num_chunks, fn);
}

void ThreadPool::ParallelRange(int64_t total, int64_t grain, absl::FunctionRef<void(int64_t, int64_t, int)> fn) {
  if (total <= 0) return;
  constexpr int64_t kChunksPerThread = 4;  // so that a thread that starts late takes less
  grain = std::max<int64_t>(grain, 1);
  const int64_t most = num_threads() == 1 ? 1 : kChunksPerThread * num_threads();
  const int64_t chunks = std::clamp<int64_t>(total / grain, 1, most);
  ParallelFor(chunks, [&](int64_t chunk, int slot) {
    // total * chunk could overflow for absurd sizes; quotient and remainder cannot.
    const int64_t quotient = total / chunks, remainder = total % chunks;
    const int64_t begin = quotient * chunk + std::min(chunk, remainder);
    fn(begin, begin + quotient + (chunk < remainder ? 1 : 0), slot);
  });
}

ThreadPool::ActiveScope::ActiveScope(ThreadPool* pool) : pool_(pool) {
  pool_->impl_->active_scopes.fetch_add(1, std::memory_order_relaxed);
  pool_->WakeUp();
}

ThreadPool::ActiveScope::~ActiveScope() { pool_->impl_->active_scopes.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace backplane::engine
