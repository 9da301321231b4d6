// Keeps the packed forms of weights beside the memory of the weights, so that only the first executions pack them:
// hosts pass the same arrays in every call.
//
// A form belongs to one storage and one kernel of one program. It is made when the kernel reads the storage for the
// second time, because weights of a training step are read once, and it is dropped with the storage, when a program
// writes to the storage (a donated argument), and when the host gets its address. The forms of a client are limited in
// bytes, count against its memory limit, and are dropped when an allocation would exceed that limit. A program that
// runs keeps its forms until it ends. Thread-safe.
#ifndef BACKPLANE_SDK_ENGINE_RUNTIME_PACKED_WEIGHTS_H_
#define BACKPLANE_SDK_ENGINE_RUNTIME_PACKED_WEIGHTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "sdk/backend/backend.h"
#include "sdk/engine/runtime/memory_budget.h"

namespace backplane {

namespace engine {
class PackedWeights;
}

// The forms of one storage. Its fields, but `registered`, are guarded by the mutex of the owner.
struct KeptForms {
  struct Form {
    uint64_t key = 0;
    int64_t reads = 0;
    bool is_being_made = false;
    uint64_t last_use = 0;
    int64_t bytes = 0;
    std::shared_ptr<const std::byte> block;  // null: not made
  };
  std::vector<Form> forms;
  int64_t host_accesses = 0;            // while there are any, no form is used
  uint64_t generation = 0;              // of the contents
  std::atomic<bool> registered{false};  // the owner knows this object
};

namespace engine {

class PackedWeights {
 public:
  using Block = std::shared_ptr<const std::byte>;

  // At most `limit_bytes` bytes of forms are kept.
  PackedWeights(std::shared_ptr<MemoryBudget> budget, int64_t limit_bytes);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // Returns the form of these weights for the kernel `key`, or null: the kernel then reads the weights themselves.
  // `pack` writes the form, of `bytes` bytes, into aligned memory. The caller keeps the storage and its contents
  // meanwhile.
  Block Find(KeptForms& weights, uint64_t key, int64_t bytes, absl::FunctionRef<absl::Status(void*)> pack);

  // Drops all forms of a storage. Required before its contents change and before it is freed.
  void Drop(KeptForms& weights);

  // See Storage::BeginHostAccess.
  void BeginHostAccess(KeptForms& weights);
  void EndHostAccess(KeptForms& weights);

  // Drops the forms whose last use is longest ago until `bytes` bytes have been dropped. Returns the dropped bytes.
  int64_t Reclaim(int64_t bytes);

  int64_t bytes() const;  // of all forms that are kept
  MemoryBudget& budget() const { return *budget_; }

 private:
  using Blocks = std::vector<Block>;  // to free without the lock

  void DropForms(KeptForms& weights, std::vector<KeptForms::Form>& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t DropOldest(int64_t bytes, uint64_t used_before, Blocks& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<MemoryBudget> budget_;
  const int64_t limit_;
  mutable Mutex mutex_;
  std::unordered_set<KeptForms*> all_ ABSL_GUARDED_BY(mutex_);  // of std, which stays valid if there is no memory
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace engine
}  // namespace backplane

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_PACKED_WEIGHTS_H_
