// The client of the HIP plugin: the devices of one runtime.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_CLIENT_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_CLIENT_H_

#include <chrono>
#include <memory>

#include "plugins/hip/backend/device.h"
#include "plugins/hip/backend/library_collectives.h"
#include "plugins/hip/backend/options.h"
#include "plugins/hip/backend/product_tuner.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/memory_spaces.h"
#include "sdk/backend/workers.h"

namespace backplane::hip {

// What running programs and storages share. It outlives the client if a program still runs. Thread-safe.
struct Runtime {
  Runtime(Topology topology, std::shared_ptr<Devices> all, std::chrono::milliseconds limit,
          ProductLibraries libraries = {}, GraphMode graphs = GraphMode::kOff)
      : devices(std::move(all)),
        memories(std::make_shared<MemorySpaces>(std::move(topology), devices)),
        collective_time_limit(limit),
        graph_mode(graphs),
        products(std::move(libraries)) {}

  const std::shared_ptr<Devices> devices;
  const std::shared_ptr<MemorySpaces> memories;
  Workers workers;
  LaunchRegistry launches;
  const std::chrono::milliseconds collective_time_limit;
  const GraphMode graph_mode;
  ProductTuner products;
  std::unique_ptr<LibraryCollectives> collectives;  // null: there is no library; not changed when programs run
};

class HipClient : public Client {
 public:
  explicit HipClient(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  ~HipClient() override { runtime_->devices->CloseStreams(); }

  const Topology& topology() const override { return memories().topology(); }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  absl::StatusOr<size_t> StorageSize(const Shape& shape, int32_t) const override {
    return memories().StorageSize(shape);
  }
  bool IsHostMemory(int32_t memory) const override { return memories().IsHost(memory); }
  size_t ZeroCopyAlignment(int32_t memory) const override { return memories().ZeroCopyAlignment(memory); }
  // Kernels access arrays by 16 bytes, and the libraries are told of 64.
  size_t ViewAlignment(int32_t memory, PrimitiveType) const override {
    return IsHostMemory(memory) ? ZeroCopyAlignment(memory) : 64;
  }

  // Copies on the streams of the devices (transfers.cc). Arrays with padding, or whose layout changes between two
  // devices, are copied by the blocking functions.
  CopyFromHostEvents StartCopyFromHost(const HostArray& src, const DeviceArray& dst, HostUse use) override;
  Event StartCopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) override;
  Event StartCopyDevice(const DeviceArray& src, const DeviceArray& dst) override;
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) override {
    return memories().CopyFromHost(src, dst);
  }
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) override {
    return memories().CopyToHost(src, host_shape_with_layout, dst);
  }
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) override {
    return memories().CopyDevice(src, dst);
  }
  absl::Status RegisterHostMemory(void* data, size_t size) override {
    return runtime_->devices->pinned().Register(data, size);
  }
  absl::Status UnregisterHostMemory(void* data) override { return runtime_->devices->pinned().Unregister(data); }

  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions& options) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override { return runtime_->devices->Stats(device); }
  absl::Status ClearMemoryStats(int32_t device) override {
    runtime_->devices->ClearStats(device);
    return absl::OkStatus();
  }
  void Schedule(std::function<void()> task) override {
    runtime_->workers.Schedule(std::move(task), Workers::Kind::kFirst);
  }

 private:
  struct LargeCopy;
  static void CopyInPieces(const std::shared_ptr<LargeCopy>& copy);
  static void CopyOutInPieces(const std::shared_ptr<LargeCopy>& copy);
  // Runs the function on a thread of the workers once `after` is ready. If it is an error, or if there is no thread,
  // the copy ends with the error.
  void RunOnWorker(const std::shared_ptr<LargeCopy>& copy, const Event& after,
                   void (*run)(const std::shared_ptr<LargeCopy>& copy));

  MemorySpaces& memories() const { return *runtime_->memories; }
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_CLIENT_H_
