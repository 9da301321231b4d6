// Host memory that the devices can access: arrays in the memory space "pinned_host", staging memory for transfers, and
// memory of the host that it has registered. Thread-safe.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_PINNED_MEMORY_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_PINNED_MEMORY_H_

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "plugins/hip/backend/memory_pool.h"
#include "plugins/hip/runtime/hip_api.h"
#include "sdk/backend/backend.h"

namespace backplane::hip {

// Must be created with std::make_shared, because storages keep it alive.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  // Larger transfers go through staging memory in pieces of this size.
  static constexpr size_t kPieceBytes = 4 << 20;
  // The most staging memory that is in use at a time, for all devices.
  static constexpr size_t kMaxStaging = 64 << 20;

  // The memory of arrays comes from slabs of `slab_bytes` (MemoryPool).
  PinnedMemory(HipApi api, size_t slab_bytes);

  // Allocates memory for an array.
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(size_t bytes);

  // Allocate staging memory of at most kPieceBytes. TryStage returns null if kMaxStaging bytes are in use; Stage waits
  // for some to be released, and must not be called on a thread that releases staging memory.
  absl::StatusOr<std::shared_ptr<Storage>> TryStage(size_t bytes);
  absl::StatusOr<std::shared_ptr<Storage>> Stage(size_t bytes);

  // See Client::RegisterHostMemory.
  absl::Status Register(void* data, size_t bytes);
  absl::Status Unregister(void* data);

  // Whether the device can access the range without help of the host.
  bool IsPinned(const void* address, size_t bytes) const;

 private:
  class Block;
  void ReleaseStaging(size_t bytes);

  const HipApi api_;
  MemoryPool arrays_, staging_;
  mutable Mutex mu_;
  CondVar released_;
  size_t staged_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uintptr_t, size_t> registered_ ABSL_GUARDED_BY(mu_);  // by address, with bytes
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_PINNED_MEMORY_H_
