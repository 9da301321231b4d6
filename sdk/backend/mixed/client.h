// The client of a mixed backend. Its devices are only numbers; their memory is a DeviceMemory or host memory.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_CLIENT_H_
#define BACKPLANE_SDK_BACKEND_MIXED_CLIENT_H_

#include <chrono>
#include <memory>
#include <vector>

#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/host_storage.h"
#include "sdk/backend/mixed/device_memory.h"
#include "sdk/backend/workers.h"

namespace backplane::mixed {

// Returns how many bytes an array occupies in its layout, including the padding of tiles. Returns 0 for shapes that are
// not arrays. The layout must be valid for the shape.
size_t StorageBytes(const Shape& shape);

// The state that running programs share. It outlives the client if a program still runs. Thread-safe.
class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  // `memory` null: the devices use host memory, at most `limit_bytes` together (0: no limit).
  Runtime(Topology topology, std::shared_ptr<DeviceMemory> memory, std::chrono::milliseconds collective_time_limit,
          int64_t limit_bytes = 0);

  const Topology& topology() const { return topology_; }
  DeviceMemory* memory() const { return memory_.get(); }  // null: host memory
  int32_t DeviceOf(int32_t memory) const { return topology_.memories[static_cast<size_t>(memory)].devices.front(); }
  bool IsHost(int32_t memory) const;
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes);
  MemoryStats Stats(int32_t device) const;
  void ClearStats(int32_t device) { counters_[static_cast<size_t>(device)]->Clear(); }

  // Copy an array of any memory and layout to a literal, which is dense and row-major, and back. Block.
  absl::StatusOr<Literal> Read(const DeviceArray& array) const;
  absl::Status Write(const Literal& value, const DeviceArray& array) const;

  Workers workers;
  LaunchRegistry launches;
  const std::chrono::milliseconds collective_time_limit;  // how long devices wait for one another

 private:
  class DeviceStorage;
  const Topology topology_;
  const std::shared_ptr<DeviceMemory> memory_;
  std::vector<std::shared_ptr<HostMemoryCounter>> counters_;  // by device
};

class MixedClient : public Client {
 public:
  explicit MixedClient(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  const Topology& topology() const override { return runtime_->topology(); }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  absl::StatusOr<size_t> StorageSize(const Shape& shape, int32_t memory) const override;  // tiled layouts too
  bool IsHostMemory(int32_t memory) const override { return runtime_->IsHost(memory); }
  size_t ZeroCopyAlignment(int32_t memory) const override;
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) override;
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) override;
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) override;
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions&) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override { return runtime_->Stats(device); }
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override {
    runtime_->workers.Schedule(std::move(task), Workers::Kind::kFirst);
  }

 protected:
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_CLIENT_H_
