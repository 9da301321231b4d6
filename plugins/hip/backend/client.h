// The client of the HIP plugin: the devices of one runtime.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_CLIENT_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_CLIENT_H_

#include <chrono>
#include <memory>

#include "plugins/hip/backend/device.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/memory_spaces.h"
#include "sdk/backend/workers.h"

namespace backplane::hip {

// What running programs and storages share. It outlives the client if a program still runs. Thread-safe.
struct Runtime {
  Runtime(Topology topology, std::shared_ptr<Devices> all, std::chrono::milliseconds limit)
      : devices(std::move(all)),
        memories(std::make_shared<MemorySpaces>(std::move(topology), devices)),
        collective_time_limit(limit) {}

  const std::shared_ptr<Devices> devices;
  const std::shared_ptr<MemorySpaces> memories;
  Workers workers;
  LaunchRegistry launches;
  const std::chrono::milliseconds collective_time_limit;
};

class HipClient : public Client {
 public:
  explicit HipClient(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  const Topology& topology() const override { return memories().topology(); }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override {
    return memories().Allocate(memory, bytes);
  }
  absl::StatusOr<size_t> StorageSize(const Shape& shape, int32_t) const override {
    return memories().StorageSize(shape);
  }
  bool IsHostMemory(int32_t memory) const override { return memories().IsHost(memory); }
  size_t ZeroCopyAlignment(int32_t memory) const override { return memories().ZeroCopyAlignment(memory); }
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) override {
    return memories().CopyFromHost(src, dst);
  }
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) override {
    return memories().CopyToHost(src, host_shape_with_layout, dst);
  }
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) override {
    return memories().CopyDevice(src, dst);
  }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions& options) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override { return memories().Stats(device); }
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override {
    runtime_->workers.Schedule(std::move(task), Workers::Kind::kFirst);
  }

 private:
  MemorySpaces& memories() const { return *runtime_->memories; }
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_CLIENT_H_
