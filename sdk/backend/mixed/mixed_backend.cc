#include "sdk/backend/mixed/mixed_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/import/option_names.h"
#include "core/types/status_macros.h"
#include "sdk/backend/host_topology.h"
#include "sdk/backend/mixed/client.h"
#include "sdk/backend/mixed/executable.h"

namespace backplane::mixed {
namespace {

// The author's memory, whose devices are numbered from 0 in each process.
class MemoryOfProcess : public DeviceMemory {
 public:
  MemoryOfProcess(std::shared_ptr<DeviceMemory> memory, int32_t first_device)
      : memory_(std::move(memory)), first_(first_device) {}
  absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) override {
    return memory_->Allocate(device - first_, bytes);
  }
  void Free(int32_t device, void* address, size_t bytes) override { memory_->Free(device - first_, address, bytes); }
  absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) override {
    return memory_->CopyIn(device - first_, host, address, bytes);
  }
  absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) override {
    return memory_->CopyOut(device - first_, address, host, bytes);
  }
  absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes) override {
    return memory_->CopyWithin(device - first_, from, to, bytes);
  }
  std::optional<int64_t> Capacity(int32_t device) const override { return memory_->Capacity(device - first_); }

 private:
  const std::shared_ptr<DeviceMemory> memory_;
  const int32_t first_;
};

class MixedBackend : public Backend {
 public:
  MixedBackend(Options options, BackendServices services)
      : options_(std::move(options)), services_(std::move(services)) {}

  std::string platform_name() const override { return options_.platform_name; }
  NamedValues plugin_attributes() const override { return options_.plugin_attributes; }

  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& given,
                                                       const HostServices& services) override {
    NamedValues options = given;
    ASSIGN_OR_RETURN(ProcessOptions processes, TakeProcessOptions(&options));
    std::chrono::milliseconds time_limit{};
    int64_t limit = 0;
    absl::StatusOr<Topology> local = [&]() -> absl::StatusOr<Topology> {
      ASSIGN_OR_RETURN(time_limit, ReadCollectiveTimeLimitOption(options));
      ASSIGN_OR_RETURN(limit, ReadMemoryLimitOption(options));
      return DescribeTopology("", options);
    }();
    ASSIGN_OR_RETURN(JoinedTopology joined, JoinProcesses(processes, services, platform_name(), std::move(local)));
    std::shared_ptr<DeviceMemory> memory = options_.memory;
    if (memory != nullptr && joined.group != nullptr)
      memory = std::make_shared<MemoryOfProcess>(std::move(memory), joined.group->first_device());
    return std::make_unique<MixedClient>(std::make_shared<Runtime>(std::move(joined.topology), std::move(memory),
                                                                   time_limit, limit, std::move(joined.group)));
  }

  absl::StatusOr<Topology> DescribeTopology(const std::string&, const NamedValues& options) override {
    int count = options_.device_count;
    for (const auto& [name, value] : options) {
      if (name == options_.device_count_option) {
        const std::optional<int64_t> n = ReadInteger(value);
        if (!n.has_value() || *n < 1 || *n > 1024) {
          return absl::InvalidArgumentError(
              absl::StrCat("create option ", name, ": must be an integer from 1 to 1024"));
        }
        count = static_cast<int>(*n);
      } else if (name != kCollectiveTimeoutOption && (name != kMemoryLimitOption || options_.memory != nullptr)) {
        return absl::InvalidArgumentError(
            absl::StrCat("create option ", name, ": unknown; known: ", options_.device_count_option, ", ",
                         kCollectiveTimeoutOption, options_.memory != nullptr ? "" : ", ",
                         options_.memory != nullptr ? "" : kMemoryLimitOption, ", ", kProcessOptionNames));
      }
    }
    return MakeTopology(options_, count);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology&) override {
    RETURN_IF_ERROR(CheckOptionNames(options.env_option_overrides));
    return CompileMixed(std::move(module), options, options_.version, options_.claims, *services_.custom_calls);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology&) override {
    return DeserializeMixed(bytes, options_.version, options_.claims, *services_.custom_calls);
  }

 private:
  const Options options_;
  const BackendServices services_;
};

}  // namespace

Topology MakeTopology(const Options& options, int devices) {
  Topology topology = HostTopology(options.version, devices);
  if (options.platform_name == "cpu" && options.device_kind.empty())
    return topology;  // its descriptions of the devices fit
  topology.platform_name = options.platform_name;
  const std::string kind = options.device_kind.empty() ? options.platform_name : options.device_kind;
  for (DeviceInfo& device : topology.devices) {
    device.kind = kind;
    device.debug_string = absl::StrCat(options.platform_name, ":", device.id);
    device.to_string = absl::StrCat(kind, "(id=", device.id, ")");
  }
  return topology;
}

std::unique_ptr<Backend> MakeBackend(Options options, BackendServices services) {
  return std::make_unique<MixedBackend>(std::move(options), std::move(services));
}

}  // namespace backplane::mixed
