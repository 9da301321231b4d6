// What one client may take from the process's memory pool: its limit, and what it uses of it.
//
// Buffers, results and temporary memory are blocks; what lies elsewhere, such as a program's constants, is reserved
// without one. Where there is no room, but programs run that will give memory back, an allocation waits for them: a
// host that calls a program a thousand times in a row has the results of all calls in flight. It does not wait where no
// program computes, and not for ever, so nothing waits for itself.
//
// Results are allocated when a program is executed, its temporary memory when it begins. So results of programs that
// wait must not take all the room: what stays (kHeld) leaves room for the largest temporary memory of all programs in
// flight, as long as any of them computes. One after another they can then run.
//
// Thread-safe. Outlives its blocks: each holds it.
#ifndef BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_BUDGET_H_
#define BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "sdk/backend/workers.h"
#include "sdk/engine/runtime/memory_pool.h"

namespace backplane::engine {

class MemoryBudget {
 public:
  // `limit_bytes`: 0 for none. `pool` and `workers` outlive the budget; `workers` may be null: nothing waits.
  MemoryBudget(int64_t limit_bytes, MemoryPool* pool, Workers* workers);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  enum class Use : uint8_t { kHeld, kTemporary };

  // A block of the pool. ResourceExhausted, naming `what` it is for, the bytes asked for, in use and allowed; nothing
  // is allocated then, and bytes beyond the limit are refused at once.
  absl::StatusOr<void*> Allocate(size_t bytes, absl::string_view what, Use use = Use::kHeld);
  void Free(void* block, Use use = Use::kHeld);

  // The same in the books alone.
  absl::Status Reserve(int64_t bytes, absl::string_view what);
  void Release(int64_t bytes);

  // A program in flight that will take so much temporary memory.
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
  bool Take(int64_t bytes, Use use, int64_t leave);  // into the books, unless the limit is in the way
  void GiveBack(int64_t bytes, Use use);
  int64_t LargestExpected();
  absl::Status TakeOrWait(int64_t bytes, absl::string_view what, Use use, void** block);
  absl::Status NoRoom(uint64_t bytes, absl::string_view what) const;

  const int64_t limit_;
  MemoryPool* const pool_;
  Workers* const workers_;
  Mutex mutex_;
  std::map<int64_t, int64_t> expected_ ABSL_GUARDED_BY(mutex_);  // bytes to programs
  std::atomic<int64_t> temporary_{0};                            // of in_use_
  std::atomic<int64_t> in_use_{0}, peak_{0}, largest_{0}, allocations_{0};
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_BUDGET_H_
