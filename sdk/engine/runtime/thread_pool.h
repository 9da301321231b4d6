// The CPU plugin's threads for data-parallel kernels. Whole programs run on others: sdk/backend/workers.h.
//
// Parallel work is cut into chunks handed out through one shared counter; the caller takes part. A waiting thread
// spins for a bounded time and then sleeps on a futex, because waking a sleeper costs 20 to 40 us and a spinning one
// 0.2 us. So a program calls WakeUp() when it starts and its first parallel kernel finds the workers awake.
//
// Budget: `num_threads` counts every thread that computes at the same time in one ParallelFor, the caller included.
#ifndef BACKPLANE_SDK_ENGINE_RUNTIME_THREAD_POOL_H_
#define BACKPLANE_SDK_ENGINE_RUNTIME_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace backplane::engine {

class ThreadPool {
 public:
  struct Options {
    int num_threads = 0;  // 0: AvailableCpus() of sdk/backend/host_limits.h
    // How long an idle worker, and a joining caller, spins before it sleeps. Longer than what a host does between two
    // short steps: a token's next step would else begin with waking everybody. No thread spins longer, not even in an
    // ActiveScope, where it is 0.
    int spin_microseconds = 300;
    // Called once on each thread of the pool before its first work (for example to set a library's thread count).
    void (*on_thread_start)() = nullptr;
  };

  ThreadPool();
  explicit ThreadPool(const Options& options);
  // Joins all threads.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Parallelism of ParallelFor, caller included; fixed for the life of the pool.
  int num_threads() const;

  // Makes sleeping workers spin for `spin_microseconds` from now, so that a ParallelFor that follows soon starts at
  // once. Costs a few microseconds if workers sleep, nanoseconds if not. Call it when a program with parallel kernels
  // begins. Never blocks.
  void WakeUp();

  // While one exists, workers do not go to sleep after their spin as long as some other core is free to spin on:
  // they stay awake between the kernels of one program.
  class ActiveScope {
   public:
    explicit ActiveScope(ThreadPool* pool);
    ~ActiveScope();
    ActiveScope(const ActiveScope&) = delete;
    ActiveScope& operator=(const ActiveScope&) = delete;

   private:
    ThreadPool* pool_;
  };

  // Runs fn(chunk, slot) for each chunk in [0, num_chunks), in no particular order, and returns when all are done.
  // `slot` is in [0, num_threads()) and no two threads hold the same one at the same time within one call: index a
  // per-thread scratch with it. The caller's slot is 0. May be called from any thread, from inside another ParallelFor
  // (the inner one is shared with whoever is idle) and while other calls are running. What fn throws is thrown here
  // once nobody runs a chunk any more; chunks that had not begun are left out.
  void ParallelFor(int64_t num_chunks, absl::FunctionRef<void(int64_t chunk, int slot)> fn);

  // The same over [0, total) in contiguous ranges of at least `grain` items, a few per thread.
  void ParallelRange(int64_t total, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end, int slot)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_THREAD_POOL_H_
