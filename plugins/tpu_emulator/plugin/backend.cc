// The backend of the tiled-TPU emulator. Arrays are in memory with the tiles and padding of a TPU, contractions have
// the rounding of its matrix unit, and programs run on the engine.
#include <memory>
#include <utility>

#include "core/import/option_names.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/plugin/client.h"
#include "plugins/tpu_emulator/plugin/executable.h"
#include "plugins/tpu_emulator/plugin/hbm.h"
#include "plugins/tpu_emulator/plugin/options.h"
#include "plugins/tpu_emulator/report/report_folder.h"

namespace backplane {
namespace tpu {
namespace {

class EmulatorBackend : public Backend {
 public:
  explicit EmulatorBackend(BackendServices services) : services_(std::move(services)) {}

  std::string platform_name() const override { return kPlatformName; }

  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& given,
                                                       const HostServices& services) override {
    NamedValues options = given;
    ASSIGN_OR_RETURN(ProcessOptions processes, TakeProcessOptions(&options));
    EmulatorOptions chosen;
    absl::StatusOr<Topology> local = [&]() -> absl::StatusOr<Topology> {
      ASSIGN_OR_RETURN(chosen, ReadOptions("", options));
      if (!chosen.report.empty()) RETURN_IF_ERROR(CheckReportFolder(chosen.report));
      return MakeTopology(chosen, processes.process);
    }();
    ASSIGN_OR_RETURN(JoinedTopology joined, JoinProcesses(processes, services, platform_name(), std::move(local)));
    const auto all_devices = static_cast<int64_t>(joined.topology.devices.size());
    auto memory = std::make_shared<Hbm>(all_devices, chosen.machine.hbm_bytes, chosen.poison);
    const TileShape tile{chosen.machine.tile_rows, chosen.machine.tile_lanes};
    return std::make_unique<EmulatorClient>(std::move(joined.topology), std::move(memory), tile,
                                            chosen.collective_timeout, std::move(joined.group));
  }

  absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& options) override {
    ASSIGN_OR_RETURN(EmulatorOptions chosen, ReadOptions(name, options));
    return MakeTopology(chosen);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology& topology) override {
    ASSIGN_OR_RETURN(EmulatorOptions chosen, ReadOptionsFromTopology(topology));
    RETURN_IF_ERROR(CheckOptionNames(options.env_option_overrides));
    return CompileForMachine(std::move(module), options, chosen, services_.custom_calls.get());
  }

  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology& topology) override {
    ASSIGN_OR_RETURN(EmulatorOptions chosen, ReadOptionsFromTopology(topology));
    return DeserializeForMachine(bytes, chosen, services_.custom_calls.get());
  }

 private:
  const BackendServices services_;
};

}  // namespace
}  // namespace tpu

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  return std::make_unique<tpu::EmulatorBackend>(std::move(services));
}

}  // namespace backplane
