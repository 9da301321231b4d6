// The emulator's client: device memory with the machine's layouts and size, and programs that run on the engine's
// threads.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_CLIENT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_CLIENT_H_

#include <chrono>
#include <memory>

#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/plugin/hbm.h"
#include "sdk/backend/memory_spaces.h"
#include "sdk/backend/processes/exchange_transfers.h"
#include "sdk/backend/processes/process_group.h"

namespace backplane::tpu {

class EmulatorClient : public Client {
 public:
  EmulatorClient(Topology topology, std::shared_ptr<Hbm> memory, TileShape tile, std::chrono::milliseconds time_limit,
                 std::shared_ptr<ProcessGroup> group)
      : memories_(std::make_shared<MemorySpaces>(std::move(topology), std::move(memory))),
        tile_(tile),
        collective_time_limit_(time_limit),
        group_(std::move(group)) {}
  ~EmulatorClient() override;
  void Close() override;  // leaves the other processes

  const Topology& topology() const override { return memories_->topology(); }
  void ReportProcessFailure(int32_t process, const std::string& why) override {
    if (group_ != nullptr) group_->ReportFailure(process, why);
  }
  bool addressable(int32_t device) const override { return group_ == nullptr || group_->addressable(device); }
  TransferService* transfers() override { return group_ == nullptr ? nullptr : &transfers_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override {
    return memories_->Allocate(memory, bytes);
  }
  absl::StatusOr<size_t> StorageSize(const Shape& shape, int32_t) const override {
    return memories_->StorageSize(shape);
  }
  absl::StatusOr<Layout> DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims) const override {
    return tpu::DefaultLayout(type, dims, tile_);
  }
  bool IsHostMemory(int32_t memory) const override { return memories_->IsHost(memory); }
  size_t ZeroCopyAlignment(int32_t memory) const override { return memories_->ZeroCopyAlignment(memory); }
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) override;
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) override;
  absl::Status CopyDevice(const DeviceArray& src, const DeviceArray& dst) override {
    return memories_->CopyDevice(src, dst);
  }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions&) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override { return memories_->Stats(device); }
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override;

  std::chrono::milliseconds collective_time_limit() const { return collective_time_limit_; }
  const std::shared_ptr<ProcessGroup>& group() const { return group_; }  // null: there is only this process

 private:
  const std::shared_ptr<MemorySpaces> memories_;
  const TileShape tile_;
  const std::chrono::milliseconds collective_time_limit_;
  const std::shared_ptr<ProcessGroup> group_;
  ExchangeTransfers transfers_{this, group_, collective_time_limit_};
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_CLIENT_H_
