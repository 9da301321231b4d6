// Compile options and their serialized form, a CompileOptionsProto.
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
  // Device ids, num_partitions of them for each replica. Empty: the default of the platform.
  std::vector<int> device_assignment;
  int device_ordinal = -1;  // -1: not specified
  bool use_spmd_partitioning = false, use_shardy_partitioner = false;
  bool parameter_is_tupled_arguments = false;
  bool compile_portable_executable = false;  // runs on any single device, chosen at execution
  // Platform-specific options. A list of numbers has no serialized form and is omitted.
  std::vector<NamedValue> overrides;

  std::string Serialize() const;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_COMPILE_OPTIONS_H_
