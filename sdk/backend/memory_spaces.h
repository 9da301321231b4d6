// The memories of a client: where each lies, what it holds, and blocking copies between any two of them.
//
// A backend's client holds one and forwards to it. The devices' memory is a DeviceMemory or, without one, the host's.
// Thread-safe. Arrays that are handed in are ready.
#ifndef BACKPLANE_SDK_BACKEND_MEMORY_SPACES_H_
#define BACKPLANE_SDK_BACKEND_MEMORY_SPACES_H_

#include <memory>
#include <vector>

#include "core/types/literal.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/device_memory.h"
#include "sdk/backend/host_storage.h"

namespace backplane {

// Create with std::make_shared: storages keep it alive.
class MemorySpaces : public std::enable_shared_from_this<MemorySpaces> {
 public:
  // `memory` null: the devices' memory is the host's, of which all devices together take `limit_bytes` at most (0: no
  // limit). Memories of another kind than "device" are always the host's.
  MemorySpaces(Topology topology, std::shared_ptr<DeviceMemory> memory, int64_t limit_bytes = 0);

  const Topology& topology() const { return topology_; }
  DeviceMemory* device_memory() const { return memory_.get(); }  // null: the host's
  int32_t DeviceOf(int32_t memory) const { return topology_.memories[static_cast<size_t>(memory)].devices.front(); }
  bool IsHost(int32_t memory) const;
  size_t ZeroCopyAlignment(int32_t memory) const { return IsHost(memory) ? kHostStorageAlignment : 0; }

  // As the functions of Client (backend.h).
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes);
  absl::StatusOr<size_t> StorageSize(const Shape& shape) const;
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) const;
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) const;
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) const;
  MemoryStats Stats(int32_t device) const;
  void ClearStats(int32_t device) { counters_[static_cast<size_t>(device)]->Clear(); }

  // An array of any memory and layout as dense row-major data of the host, and back. Read may return data that is
  // borrowed from the array's storage. Write does not change the padding of tiles.
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
