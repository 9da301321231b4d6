// Options of a compilation, and the bytes (a serialized CompileOptionsProto) in which they cross the boundary.
#ifndef BACKPLANE_SDK_HOST_COMPILE_OPTIONS_H_
#define BACKPLANE_SDK_HOST_COMPILE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sdk/host/named_value.h"

namespace backplane::host {

struct CompileOptions {
  int num_replicas = 1, num_partitions = 1;
  // Ids of devices, one row of partitions for each replica; empty: the platform's default.
  std::vector<int> device_assignment;
  int device_ordinal = -1;  // -1: none asked for
  bool use_spmd_partitioning = false, use_shardy_partitioner = false;
  bool parameter_is_tupled_arguments = false;
  bool compile_portable_executable = false;  // runs on any one device, chosen at execute
  // Options of the platform's own; a list of numbers has no form on the wire and is left out.
  std::vector<NamedValue> overrides;

  std::string Serialize() const;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_COMPILE_OPTIONS_H_
