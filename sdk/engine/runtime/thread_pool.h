// The threads of the engine for data-parallel kernels. Complete programs run on other threads (sdk/backend/workers.h).
//
// Parallel work is divided into chunks, which threads take from a shared counter; the calling thread takes chunks as
// well. A waiting thread spins for a bounded time and then sleeps on a futex, because waking a sleeping thread takes 20
// to 40 us and a spinning one 0.2 us. A program therefore calls WakeUp() when it starts, so that its first parallel
// kernel finds the workers awake.
//
// `num_threads` counts all threads that compute at the same time in one ParallelFor, including the caller.
#ifndef BACKPLANE_SDK_ENGINE_RUNTIME_THREAD_POOL_H_
#define BACKPLANE_SDK_ENGINE_RUNTIME_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace backplane::engine {

class ThreadPool {
 public:
  struct Options {
    int num_threads = 0;  // 0: CountAvailableCpus() of sdk/backend/host_limits.h
    // How long an idle worker, and a joining caller, spins before it sleeps. Should be longer than the pause of a host
    // between two short steps, such as the tokens of a language model; otherwise every step begins by waking all
    // threads. 0: no thread spins, not even in an ActiveScope.
    int spin_microseconds = 300;
    // Called once on each thread of the pool before its first work, for example to set the thread count of a library.
    void (*on_thread_start)() = nullptr;
  };

  ThreadPool();
  explicit ThreadPool(const Options& options);
  // Joins all threads.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns the number of threads of a ParallelFor, including the caller. Constant.
  int num_threads() const;

  // Makes sleeping workers spin for `spin_microseconds` from now, so that a ParallelFor that follows soon starts at
  // once. Costs a few microseconds if workers sleep, nanoseconds if not. Call it when a program with parallel kernels
  // begins. Never blocks.
  void WakeUp();

  // From now on no thread spins, as with spin_microseconds = 0. For processes that share their cores with others, whose
  // work a spinning thread would delay.
  void StopSpinning();

  // While an ActiveScope exists, workers do not sleep after spinning as long as another core is free for them. They
  // stay awake between the kernels of one program.
  class ActiveScope {
   public:
    explicit ActiveScope(ThreadPool* pool);
    ~ActiveScope();
    ActiveScope(const ActiveScope&) = delete;
    ActiveScope& operator=(const ActiveScope&) = delete;

   private:
    ThreadPool* pool_;
  };

  // Runs fn(chunk, slot) for each chunk in [0, num_chunks), in any order, and returns when all calls have ended. `slot`
  // is in [0, num_threads()), and no two threads have the same slot at the same time within one call, so it can index
  // scratch memory per thread. The slot of the caller is 0. May be called from any thread, from inside another
  // ParallelFor (idle threads help with the inner one) and while other calls are running. If fn throws, the exception
  // is rethrown here after all running chunks have ended; chunks that have not started are skipped. All threads compute
  // with subnormal numbers as the caller does (base/subnormals.h).
  void ParallelFor(int64_t num_chunks, absl::FunctionRef<void(int64_t chunk, int slot)> fn);

  // Like ParallelFor, over [0, total) in contiguous ranges of at least `grain` items, a few per thread.
  void ParallelRange(int64_t total, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end, int slot)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_THREAD_POOL_H_
