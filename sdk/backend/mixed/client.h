// The client of a mixed backend. Its devices are only numbers; their memory is a DeviceMemory or host memory.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_CLIENT_H_
#define BACKPLANE_SDK_BACKEND_MIXED_CLIENT_H_

#include <chrono>
#include <memory>

#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/memory_spaces.h"
#include "sdk/backend/processes/exchange_transfers.h"
#include "sdk/backend/processes/process_group.h"
#include "sdk/backend/workers.h"

namespace backplane::mixed {

// The state that running programs share. It outlives the client if a program still runs. Thread-safe.
struct Runtime {
  // `memory` null: the devices use host memory, at most `limit_bytes` together (0: no limit).
  Runtime(Topology topology, std::shared_ptr<DeviceMemory> memory, std::chrono::milliseconds collective_time_limit,
          int64_t limit_bytes = 0, std::shared_ptr<ProcessGroup> group = nullptr);

  const std::shared_ptr<MemorySpaces> memories;
  Workers workers;
  LaunchRegistry launches;
  const std::chrono::milliseconds collective_time_limit;  // how long devices wait for one another
  const std::shared_ptr<ProcessGroup> group;              // null: the program has only this process
};

class MixedClient : public Client {
 public:
  explicit MixedClient(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
  ~MixedClient() override;
  void Close() override;  // leaves the other processes

  const Topology& topology() const override { return memories().topology(); }
  void ReportProcessFailure(int32_t process, const std::string& why) override {
    if (runtime_->group != nullptr) runtime_->group->ReportFailure(process, why);
  }
  bool addressable(int32_t device) const override {
    return runtime_->group == nullptr || runtime_->group->addressable(device);
  }
  TransferService* transfers() override { return runtime_->group == nullptr ? nullptr : &transfers_; }
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
                                                         const LoadOptions&) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override { return memories().Stats(device); }
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override {
    runtime_->workers.Schedule(std::move(task), Workers::Kind::kFirst);
  }

 private:
  MemorySpaces& memories() const { return *runtime_->memories; }

  const std::shared_ptr<Runtime> runtime_;
  ExchangeTransfers transfers_{this, runtime_->group, runtime_->collective_time_limit};
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_CLIENT_H_
