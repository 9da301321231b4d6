// Topology of a client whose devices are shares of this machine's processor: what the reference and the CPU plugin
// show.
#ifndef BACKPLANE_SDK_BACKEND_HOST_TOPOLOGY_H_
#define BACKPLANE_SDK_BACKEND_HOST_TOPOLOGY_H_

#include <chrono>

#include "sdk/backend/backend.h"

namespace backplane {

// Devices 0 to n-1 in process 0, each with the memories "device" (its default), "pinned_host" and "unpinned_host", ids
// 3d, 3d+1, 3d+2. All three are ordinary host memory.
Topology HostTopology(const std::string& platform_version, int num_devices);

// Reads `cpu_device_count` (default 1, at most 1024) from create options and refuses all names but that and `known`.
absl::StatusOr<int> HostDeviceCount(const NamedValues& options, absl::Span<const absl::string_view> known = {});

// `collective_timeout_seconds` (1 to 86400, default 120): how long the devices of a launch wait for one another before
// all of them fail with a message that names who is missing.
inline constexpr char kCollectiveTimeoutOption[] = "collective_timeout_seconds";
absl::StatusOr<std::chrono::milliseconds> CollectiveTimeLimit(const NamedValues& options);

// `memory_limit_bytes` (at least 1, default HostMemoryBytes() of host_limits.h): what the buffers, results and
// temporary memory of a client may take together. 0 where nothing is said and nothing known.
inline constexpr char kMemoryLimitOption[] = "memory_limit_bytes";
absl::StatusOr<int64_t> MemoryLimit(const NamedValues& options);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_TOPOLOGY_H_
