// Storage in ordinary host memory, for backends whose device memory is that and that bring no allocator of their own.
#ifndef BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_
#define BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"

namespace backplane {

// What host storages took and gave back. Thread-safe.
class HostMemoryCounter {
 public:
  void Add(int64_t bytes);
  void Remove(int64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }
  MemoryStats Stats() const;
  void Clear();  // the peak becomes what is in use; counts become 0

 private:
  std::atomic<int64_t> in_use_{0}, peak_{0}, allocations_{0}, largest_{0};
};

constexpr size_t kHostStorageAlignment = 64;

// Uninitialized memory aligned to 64 bytes. ResourceExhausted when the system has none. `counter` may be null.
absl::StatusOr<std::shared_ptr<Storage>> AllocateHostStorage(size_t bytes, std::shared_ptr<HostMemoryCounter> counter);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_
