// The reference plugin: the evaluator behind the C ABI. The definition that others are compared with, and the skeleton
// to begin a backend from.
#include "core/types/status_macros.h"
#include "plugins/reference/client.h"
#include "plugins/reference/executable.h"
#include "sdk/backend/host_topology.h"

namespace backplane {
namespace reference {
namespace {

constexpr char kVersion[] = "backplane reference 0.1.0";

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(BackendServices services) : services_(std::move(services)) {}

  std::string platform_name() const override { return "cpu"; }

  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& options) override {
    ASSIGN_OR_RETURN(int devices, HostDeviceCount(options, {kCollectiveTimeoutOption}));
    ASSIGN_OR_RETURN(std::chrono::milliseconds time_limit, CollectiveTimeLimit(options));
    return std::make_unique<ReferenceClient>(HostTopology(kVersion, devices), time_limit);
  }

  absl::StatusOr<Topology> DescribeTopology(const std::string&, const NamedValues& options) override {
    ASSIGN_OR_RETURN(int devices, HostDeviceCount(options, {kCollectiveTimeoutOption}));
    return HostTopology(kVersion, devices);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology&) override {
    return CompileReference(std::move(module), options, *services_.custom_calls);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology&) override {
    return DeserializeReference(bytes, *services_.custom_calls);
  }

 private:
  const BackendServices services_;
};

}  // namespace
}  // namespace reference

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  return std::make_unique<reference::ReferenceBackend>(std::move(services));
}

}  // namespace backplane
