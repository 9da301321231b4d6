#include "sdk/backend/host_topology.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/backend/host_limits.h"

namespace backplane {

Topology HostTopology(const std::string& platform_version, int num_devices) {
  static constexpr const char* kKinds[] = {"device", "pinned_host", "unpinned_host"};
  Topology t;
  t.platform_name = "cpu";
  t.platform_version = platform_version;
  for (int d = 0; d < num_devices; ++d) {
    DeviceInfo device;
    device.id = d;
    device.local_hardware_id = d;
    device.kind = "cpu";
    device.debug_string = absl::StrCat("cpu:", d);
    device.to_string = absl::StrCat("CpuDevice(id=", d, ")");
    for (int k = 0; k < 3; ++k) {
      MemoryInfo memory;
      memory.id = 3 * d + k;
      memory.kind = kKinds[k];
      memory.kind_id = k;
      memory.devices = {d};
      device.memories.push_back(memory.id);
      t.memories.push_back(std::move(memory));
    }
    t.devices.push_back(std::move(device));
  }
  return t;
}

absl::StatusOr<int> ReadDeviceCountOption(const NamedValues& options, absl::Span<const absl::string_view> known) {
  int count = 1;
  for (const auto& [name, value] : options) {
    if (name == "cpu_device_count") {
      const std::optional<int64_t> n = ReadInteger(value);
      if (!n.has_value() || *n < 1 || *n > 1024) {
        return absl::InvalidArgumentError("create option cpu_device_count: must be an integer from 1 to 1024");
      }
      count = static_cast<int>(*n);
      continue;
    }
    if (std::find(known.begin(), known.end(), absl::string_view(name)) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": unknown; known: cpu_device_count",
                                                     known.empty() ? "" : ", ", absl::StrJoin(known, ", ")));
    }
  }
  return count;
}

absl::StatusOr<std::chrono::milliseconds> ReadCollectiveTimeLimitOption(const NamedValues& options) {
  constexpr int64_t kDefaultSeconds = 120, kMaxSeconds = 86400;
  auto at = options.find(kCollectiveTimeoutOption);
  if (at == options.end()) return std::chrono::seconds(kDefaultSeconds);
  const std::optional<int64_t> n = ReadInteger(at->second);
  if (!n.has_value() || *n < 1 || *n > kMaxSeconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("create option ", kCollectiveTimeoutOption, ": must be an integer from 1 to ", kMaxSeconds));
  }
  return std::chrono::seconds(*n);
}

absl::StatusOr<int64_t> ReadMemoryLimitOption(const NamedValues& options) {
  auto at = options.find(kMemoryLimitOption);
  if (at == options.end()) return ReadHostMemoryBytes();
  const std::optional<int64_t> n = ReadInteger(at->second);
  if (!n.has_value() || *n < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("create option ", kMemoryLimitOption, ": must be a number of bytes, at least 1"));
  }
  return *n;
}

absl::StatusOr<Subnormals> ReadSubnormalsOption(const NamedValues& options) {
  auto at = options.find(kDenormalsOption);
  if (at == options.end()) return Subnormals::kFlushResults;
  const std::string* mode = std::get_if<std::string>(&at->second);
  if (mode != nullptr && *mode == "flush") return Subnormals::kFlushResults;
  if (mode != nullptr && *mode == "keep") return Subnormals::kKeep;
  return absl::InvalidArgumentError(
      absl::StrCat("create option ", kDenormalsOption, ": must be \"flush\" or \"keep\""));
}

}  // namespace backplane
