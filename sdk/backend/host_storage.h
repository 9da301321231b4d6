// Storage in ordinary host memory, for backends whose device memory is that and that bring no allocator of their own.
#ifndef BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_
#define BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"

namespace backplane {

// What host storages took and gave back, and what they may take. Thread-safe.
class HostMemoryCounter {
 public:
  // `limit_bytes`: 0 for none. `whole`, which may be null, counts the same bytes for several counters together, under
  // a limit of its own.
  explicit HostMemoryCounter(int64_t limit_bytes = 0, std::shared_ptr<HostMemoryCounter> whole = nullptr)
      : limit_(limit_bytes), whole_(std::move(whole)) {}

  // ResourceExhausted, with the bytes asked for, in use and allowed, where a limit is in the way; nothing is counted
  // then.
  absl::Status Add(int64_t bytes);
  void Remove(int64_t bytes);
  MemoryStats Stats() const;
  void Clear();  // the peak becomes what is in use; counts become 0

 private:
  const int64_t limit_;
  const std::shared_ptr<HostMemoryCounter> whole_;
  std::atomic<int64_t> in_use_{0}, peak_{0}, allocations_{0}, largest_{0};
};

constexpr size_t kHostStorageAlignment = 64;

// Uninitialized memory aligned to 64 bytes. ResourceExhausted when the system has none or the counter's limit is in the
// way. `counter` may be null.
absl::StatusOr<std::shared_ptr<Storage>> AllocateHostStorage(size_t bytes, std::shared_ptr<HostMemoryCounter> counter);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_STORAGE_H_
