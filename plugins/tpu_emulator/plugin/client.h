// The emulator's client: device memory with the machine's layouts and size, and programs that run on the engine's
// threads.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_CLIENT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_CLIENT_H_

#include <memory>

#include "plugins/tpu_emulator/machine/default_layout.h"
#include "plugins/tpu_emulator/plugin/hbm.h"
#include "sdk/backend/mixed/client.h"

namespace backplane::tpu {

class EmulatorClient : public mixed::MixedClient {
 public:
  EmulatorClient(Topology topology, std::shared_ptr<Hbm> memory, TileShape tile, std::chrono::milliseconds time_limit)
      : MixedClient(std::make_shared<mixed::Runtime>(std::move(topology), std::move(memory), time_limit)),
        tile_(tile) {}
  ~EmulatorClient() override;

  absl::StatusOr<Layout> DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims) const override {
    return tpu::DefaultLayout(type, dims, tile_);
  }
  absl::Status CopyFromHost(const HostArray& src, const DeviceArray& dst) override;
  absl::Status CopyToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst) override;
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions&) override;
  void Schedule(std::function<void()> task) override;

  std::chrono::milliseconds collective_time_limit() const { return runtime_->collective_time_limit; }
  bool IsHbm(int32_t memory) const { return !runtime_->IsHost(memory); }

 private:
  const TileShape tile_;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_CLIENT_H_
