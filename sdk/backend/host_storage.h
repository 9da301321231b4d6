// Storage in ordinary host memory, for backends whose device memory is host memory and that have no allocator.
#ifndef BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_
#define BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"

namespace backplane {

// Counts the bytes in host storages and enforces a limit. Thread-safe.
class HostMemoryCounter {
 public:
  // `limit_bytes` 0: no limit. `total`, which may be null, counts the bytes of several counters together and has its
  // own limit.
  explicit HostMemoryCounter(int64_t limit_bytes = 0, std::shared_ptr<HostMemoryCounter> total = nullptr)
      : limit_(limit_bytes), total_(std::move(total)) {}

  // Counts an allocation. Returns ResourceExhausted, with the bytes requested, in use and allowed, if it would exceed a
  // limit; nothing is counted then.
  absl::Status Add(int64_t bytes);
  void Remove(int64_t bytes);
  MemoryStats Stats() const;
  void Clear();  // sets the peak to the bytes in use and the other counts to 0

 private:
  const int64_t limit_;
  const std::shared_ptr<HostMemoryCounter> total_;
  std::atomic<int64_t> in_use_{0}, peak_{0}, allocations_{0}, largest_{0};
};

constexpr size_t kHostStorageAlignment = 64;

// Allocates uninitialized memory, aligned to kHostStorageAlignment bytes. `counter` may be null. Returns
// ResourceExhausted if the system has no memory or the limit of the counter would be exceeded.
absl::StatusOr<std::shared_ptr<Storage>> AllocateHostStorage(size_t bytes, std::shared_ptr<HostMemoryCounter> counter);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_
