// The topology and the create options of clients whose devices are the host's processor. The reference plugin and the
// CPU plugin use them.
#ifndef BACKPLANE_SDK_BACKEND_HOST_TOPOLOGY_H_
#define BACKPLANE_SDK_BACKEND_HOST_TOPOLOGY_H_

#include <chrono>

#include "base/subnormals.h"
#include "sdk/backend/backend.h"

namespace backplane {

// Returns devices 0 to num_devices-1 in process 0. Device d has the memories "device" (its default), "pinned_host" and
// "unpinned_host" with the ids 3d, 3d+1, 3d+2. All three are ordinary host memory.
Topology HostTopology(const std::string& platform_version, int num_devices);

// Reads `cpu_device_count` (default 1, at most 1024) from create options. Returns InvalidArgument for an option that is
// neither this one nor in `known`.
absl::StatusOr<int> ReadDeviceCountOption(const NamedValues& options, absl::Span<const absl::string_view> known = {});

// Reads `collective_timeout_seconds` (1 to 86400, default 120): how long the devices of a launch wait for one another.
// Then all of them fail, with a message that names the missing devices.
inline constexpr char kCollectiveTimeoutOption[] = "collective_timeout_seconds";
absl::StatusOr<std::chrono::milliseconds> ReadCollectiveTimeLimitOption(const NamedValues& options);

// Reads `memory_limit_bytes` (at least 1, default ReadHostMemoryBytes() of host_limits.h): the limit for buffers,
// results and temporary memory of a client together. Returns 0 if the option is not given and the host's memory is
// unknown.
inline constexpr char kMemoryLimitOption[] = "memory_limit_bytes";
absl::StatusOr<int64_t> ReadMemoryLimitOption(const NamedValues& options);

// Reads `denormals`, "flush" (the default) or "keep": whether compiled programs may write subnormal results as zero.
inline constexpr char kDenormalsOption[] = "denormals";
absl::StatusOr<Subnormals> ReadSubnormalsOption(const NamedValues& options);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_TOPOLOGY_H_
