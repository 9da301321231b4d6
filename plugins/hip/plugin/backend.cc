// The HIP plugin: GPUs by AMD's runtime, by NVIDIA's driver, or emulated.
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/client.h"
#include "plugins/hip/backend/executable.h"
#include "plugins/hip/backend/options.h"

namespace backplane {
namespace hip {
namespace {

class HipBackend : public Backend {
 public:
  explicit HipBackend(BackendServices services) : services_(std::move(services)) {}
  std::string platform_name() const override { return "hip"; }

  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& values, const HostServices&) override {
    ASSIGN_OR_RETURN(const Options options, ParseOptions(values));
    ASSIGN_OR_RETURN(HipApi api, OpenRuntime(options.runtime));
    const bool emulated = api.platform == Platform::kEmulated;
    const Devices::Limits limits{options.memory_limit_bytes, ChooseSlabBytes(options, emulated)};
    ASSIGN_OR_RETURN(std::shared_ptr<Devices> devices, Devices::Open(std::move(api), limits));
    std::string target = options.target;
    if (target.empty()) target = emulated ? "host" : FindTargetOfArchitecture(devices->architecture(0));
    target = MakeTargetName(target, options);
    RETURN_IF_ERROR(FindGpuTarget(target).status());
    std::vector<DeviceNames> names;
    for (int d = 0; d < devices->count(); ++d) names.push_back({devices->name(d), devices->architecture(d)});
    ProductLibraries libraries;
    if (options.vendor_libraries)
      libraries = OpenProductLibraries(devices->api(), options.product_library, devices->architecture(0));
    auto runtime = std::make_shared<Runtime>(MakeTopology(target, names), devices, options.collective_time_limit,
                                             std::move(libraries), options.graphs);
    if (options.vendor_libraries && devices->count() > 1) {
      runtime->collectives = LibraryCollectives::Open(devices, options.collective_library);
    }
    return std::make_unique<HipClient>(std::move(runtime));
  }

  // Without hardware: the name, or the option, says for which GPU.
  absl::StatusOr<Topology> DescribeTopology(const std::string& name, const NamedValues& values) override {
    ASSIGN_OR_RETURN(const Options options, ParseOptions(values));
    std::string target = options.target.empty() ? name : options.target;
    target = MakeTargetName(target.empty() ? "gfx942" : target, options);
    RETURN_IF_ERROR(FindGpuTarget(target).status());
    return MakeTopology(target, std::vector<DeviceNames>(static_cast<size_t>(options.device_count), {target, target}));
  }

  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology& topology) override {
    return CompileForGpu(std::move(module), TargetOfTopology(topology), options, *services_.custom_calls);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology& topology) override {
    return DeserializeForGpu(bytes, TargetOfTopology(topology), *services_.custom_calls);
  }

 private:
  static std::string TargetOfTopology(const Topology& topology) {
    return std::get<std::string>(topology.attributes.at(kTargetAttribute));
  }

  const BackendServices services_;
};

}  // namespace
}  // namespace hip

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  return std::make_unique<hip::HipBackend>(std::move(services));
}

}  // namespace backplane
