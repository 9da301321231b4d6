// The memory spaces of a client: allocation, statistics, and blocking copies between any two of them.
//
// A client may own one and forward its functions to it. The devices use a DeviceMemory or, without one, host memory.
// Thread-safe. Arrays that are passed in must be ready.
#ifndef BACKPLANE_SDK_BACKEND_MEMORY_SPACES_H_
#define BACKPLANE_SDK_BACKEND_MEMORY_SPACES_H_

#include <memory>
#include <vector>

#include "core/types/literal.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/device_memory.h"
#include "sdk/backend/host_storage.h"

namespace backplane {

// Must be created with std::make_shared, because storages keep it alive.
class MemorySpaces : public std::enable_shared_from_this<MemorySpaces> {
 public:
  // `memory` null: the devices use host memory, at most `limit_bytes` together (0: no limit). Memory spaces of other
  // kinds than "device" are always host memory.
  MemorySpaces(Topology topology, std::shared_ptr<DeviceMemory> memory, int64_t limit_bytes = 0);

  const Topology& topology() const { return topology_; }
  DeviceMemory* device_memory() const { return memory_.get(); }  // null: host memory
  int32_t GetDevice(int32_t memory) const { return topology_.memories[static_cast<size_t>(memory)].devices.front(); }
  bool IsHost(int32_t memory) const;
  size_t ZeroCopyAlignment(int32_t memory) const { return IsHost(memory) ? kHostStorageAlignment : 0; }

  // See the functions of Client with the same names (backend.h).
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes);
  absl::StatusOr<size_t> StorageSize(const Shape& shape) const;
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) const;
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) const;
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) const;
  MemoryStats Stats(int32_t device) const;
  void ClearStats(int32_t device) { counters_[static_cast<size_t>(device)]->Clear(); }

  // Copy an array of any memory space and layout to a literal, which is dense and row-major, and back. The result of
  // Read may refer to the array's storage. Write does not change the padding of tiles.
  absl::StatusOr<Literal> Read(const DeviceArray& array) const;
  absl::Status Write(const Literal& value, const DeviceArray& array) const;

 private:
  class DeviceStorage;
  const Topology topology_;
  const std::shared_ptr<DeviceMemory> memory_;
  std::vector<std::shared_ptr<HostMemoryCounter>> counters_;  // by device
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_MEMORY_SPACES_H_
