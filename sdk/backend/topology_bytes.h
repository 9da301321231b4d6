// The stored form of a topology. Hosts get it as bytes, and processes of one program send it to each other.
#ifndef BACKPLANE_SDK_BACKEND_TOPOLOGY_BYTES_H_
#define BACKPLANE_SDK_BACKEND_TOPOLOGY_BYTES_H_

#include <string>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"

namespace backplane {

// Checks a description that a backend returned: ids are indices, and memories and devices refer to each other.
absl::Status CheckTopology(const Topology& topology);

std::string SerializeTopology(const Topology& topology);

// Reads the result of SerializeTopology. Returns InvalidArgument for any other bytes.
absl::StatusOr<Topology> ParseTopology(absl::string_view bytes);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_TOPOLOGY_BYTES_H_
