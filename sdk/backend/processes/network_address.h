// The addresses of this machine.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_NETWORK_ADDRESS_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_NETWORK_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace backplane {

// Returns an address on which to listen. `interface` is the name of an interface, or an address of this machine.
// Returns NotFound, with the names of all interfaces, if it is neither. Empty: the first interface that is up, is not
// the loopback interface, and has an IPv4 address.
absl::StatusOr<std::string> FindListenAddress(const std::string& interface);

inline constexpr char kLoopbackAddress[] = "127.0.0.1";

// Identifies the running machine and its network. Processes with equal ids reach each other over the loopback
// interface.
std::string NetworkId();

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_NETWORK_ADDRESS_H_
