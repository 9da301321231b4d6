// The share of the process's memory pool that one client may use: its limit and its usage.
//
// Buffers, results and temporary memory are blocks of the pool. Other memory, such as the constants of a program, is
// only reserved. If the limit is reached while programs run that will free memory, an allocation waits for them: a host
// that calls a program a thousand times in a row has the results of all calls in flight. It does not wait if no program
// computes, and only for a bounded time, so it cannot wait for itself for ever.
//
// Results are allocated when a program is submitted, its temporary memory when it starts. Therefore the results of
// waiting programs must not use up all memory: allocations that stay (kPersistent) leave room for the largest temporary
// memory of all programs in flight as long as any program computes. The programs can then run at least one after
// another.
//
// Thread-safe. Each block holds a reference to the budget, which therefore outlives its blocks.
#ifndef BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_BUDGET_H_
#define BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "sdk/backend/workers.h"
#include "sdk/engine/runtime/memory_pool.h"

namespace backplane::engine {

class MemoryBudget {
 public:
  // `limit_bytes` 0: no limit. `pool` and `workers` must outlive the budget. If `workers` is null, allocations never
  // wait.
  MemoryBudget(int64_t limit_bytes, MemoryPool* pool, Workers* workers);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  enum class Use : uint8_t { kPersistent, kTemporary };

  // Allocates a block of the pool. Returns ResourceExhausted, with `what` the memory is for and the bytes requested, in
  // use and allowed, if there is not enough memory; a request larger than the limit fails without waiting.
  absl::StatusOr<void*> Allocate(size_t bytes, absl::string_view what, Use use = Use::kPersistent);
  void Free(void* block, Use use = Use::kPersistent);
  // Like Allocate for memory that stays, but returns null instead of waiting.
  void* TryAllocate(size_t bytes);
  // Sets a function that frees memory which is kept only for speed, about as many bytes as it is asked for, and returns
  // how many. An allocation calls it before it waits. Call this before the first allocation.
  void SetReclaimer(std::function<int64_t(int64_t)> reclaimer) { reclaimer_ = std::move(reclaimer); }

  // Like Allocate and Free, but only count the bytes.
  absl::Status Reserve(int64_t bytes, absl::string_view what);
  void Release(int64_t bytes);

  // Announces a program in flight that will need this much temporary memory.
  class Expected {
   public:
    Expected(std::shared_ptr<MemoryBudget> budget, int64_t bytes);  // `budget` may be null
    ~Expected();
    Expected(const Expected&) = delete;
    Expected& operator=(const Expected&) = delete;

   private:
    const std::shared_ptr<MemoryBudget> budget_;
    const int64_t bytes_;
  };

  struct Statistics {
    int64_t bytes_in_use = 0, peak_bytes_in_use = 0, largest_alloc_bytes = 0, num_allocations = 0;
    int64_t bytes_limit = 0;  // 0: none
  };
  Statistics GetStatistics() const;
  void ResetPeaks();

 private:
  // Counts the bytes. Returns false without counting them if the limit would be exceeded, or if the bytes that are not
  // temporary would leave less than `leave` of it.
  bool TryReserve(int64_t bytes, Use use, int64_t leave);
  void Unreserve(int64_t bytes, Use use);
  int64_t LargestExpected();
  absl::Status ReserveOrWait(int64_t bytes, absl::string_view what, Use use, void** block);
  absl::Status OutOfMemoryError(uint64_t bytes, absl::string_view what) const;

  const int64_t limit_;
  MemoryPool* const pool_;
  Workers* const workers_;
  std::function<int64_t(int64_t)> reclaimer_;
  Mutex mutex_;
  std::map<int64_t, int64_t> expected_ ABSL_GUARDED_BY(mutex_);  // bytes to programs
  std::atomic<int64_t> temporary_{0};                            // of in_use_
  std::atomic<int64_t> in_use_{0}, peak_{0}, largest_{0}, allocations_{0};
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_BUDGET_H_
