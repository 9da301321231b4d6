// A backend for a device that works asynchronously: docs/writing_a_plugin.md, chapter 8. The device is simulated
// (chip.h). The mixed backend compiles and runs the programs, with the kernels of samples/backend.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/import/option_names.h"
#include "core/types/status_macros.h"
#include "samples/backend/kernels.h"
#include "samples/queue_backend/client.h"
#include "sdk/backend/host_topology.h"
#include "sdk/backend/mixed/executable.h"

namespace queue_backend {
namespace {

constexpr char kPlatform[] = "queue_backend";
constexpr char kVersion[] = "queue_backend 0.1.0";
constexpr char kMemoryOption[] = "memory_bytes";
constexpr int kDevices = 2;
constexpr int64_t kMemoryBytes = int64_t{1} << 30;

class QueueBackend : public backplane::Backend {
 public:
  explicit QueueBackend(backplane::BackendServices services) : services_(std::move(services)) {}
  std::string platform_name() const override { return kPlatform; }

  absl::StatusOr<std::unique_ptr<backplane::Client>> CreateClient(const backplane::NamedValues& options,
                                                                  const backplane::HostServices&) override {
    ASSIGN_OR_RETURN(backplane::Topology topology, DescribeTopology("", options));
    ASSIGN_OR_RETURN(std::chrono::milliseconds limit, backplane::ReadCollectiveTimeLimitOption(options));
    auto bytes = options.find(kMemoryOption);
    return std::make_unique<QueueClient>(
        std::move(topology),
        static_cast<size_t>(bytes == options.end() ? kMemoryBytes : std::get<int64_t>(bytes->second)), limit);
  }

  absl::StatusOr<backplane::Topology> DescribeTopology(const std::string&,
                                                       const backplane::NamedValues& options) override {
    for (const auto& [name, value] : options) {
      const int64_t* n = std::get_if<int64_t>(&value);
      if (name == backplane::kCollectiveTimeoutOption) continue;
      if (name != kMemoryOption) {
        return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": unknown; known: ", kMemoryOption,
                                                       ", ", backplane::kCollectiveTimeoutOption));
      }
      if (n == nullptr || *n < 4096) return absl::InvalidArgumentError("create option memory_bytes: at least 4096");
    }
    backplane::Topology topology;
    topology.platform_name = kPlatform;
    topology.platform_version = kVersion;
    for (int32_t d = 0; d < kDevices; ++d) {
      backplane::DeviceInfo device;
      device.id = device.local_hardware_id = d;
      device.kind = "simulated chip";
      device.debug_string = absl::StrCat(kPlatform, ":", d);
      device.to_string = absl::StrCat("Chip(id=", d, ")");
      device.memories = {2 * d, 2 * d + 1};
      topology.devices.push_back(std::move(device));
      topology.memories.push_back({2 * d, "device", 0, {d}});
      topology.memories.push_back({2 * d + 1, "pinned_host", 1, {d}});
    }
    return topology;
  }

  absl::StatusOr<std::shared_ptr<backplane::Executable>> Compile(std::unique_ptr<backplane::Module> module,
                                                                 const backplane::CompileOptions& options,
                                                                 const backplane::Topology&) override {
    RETURN_IF_ERROR(backplane::CheckOptionNames(options.env_option_overrides));
    return backplane::mixed::CompileMixed(std::move(module), options, kVersion, my::MyClaims(),
                                          *services_.custom_calls);
  }

  absl::StatusOr<std::shared_ptr<backplane::Executable>> Deserialize(absl::string_view bytes,
                                                                     const backplane::Topology&) override {
    return backplane::mixed::DeserializeMixed(bytes, kVersion, my::MyClaims(), *services_.custom_calls);
  }

 private:
  const backplane::BackendServices services_;
};

}  // namespace
}  // namespace queue_backend

std::unique_ptr<backplane::Backend> backplane::CreateBackend(BackendServices services) {
  return std::make_unique<queue_backend::QueueBackend>(std::move(services));
}
