// The options of a host for one compilation: the content of a serialized CompileOptionsProto (PJRT_Client_Compile).
#ifndef BACKPLANE_CORE_IMPORT_COMPILE_OPTIONS_H_
#define BACKPLANE_CORE_IMPORT_COMPILE_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/attribute_values.h"
#include "core/types/shape.h"

namespace backplane {

struct CompileOptions {
  int32_t num_replicas = 1, num_partitions = 1;
  std::vector<int32_t> device_assignment;  // [replica * num_partitions + partition]; empty: devices 0, 1, 2...
  int64_t device_ordinal = -1;
  bool use_spmd_partitioning = false, use_shardy_partitioner = false, use_auto_spmd_partitioning = false;
  bool parameter_is_tupled_arguments = false;  // one tuple parameter holds all arguments
  bool compile_portable_executable = false;    // runs on a single device, which is chosen at each execution
  std::vector<Shape> argument_layouts;         // empty: none requested
  Shape result_layout;                         // invalid: none requested
  std::vector<bool> allow_spmd_sharding_propagation_to_parameters, allow_spmd_sharding_propagation_to_output;
  StringMap env_option_overrides;  // backend options by name, values as text
  std::string serialized;          // the original bytes, which GetCompileOptions returns to the host
};

// Parses serialized options. Ignores unknown fields, but keeps them in `serialized`. Empty bytes give the defaults.
// Returns InvalidArgument for bytes that are no CompileOptionsProto.
absl::StatusOr<CompileOptions> ParseCompileOptions(absl::string_view bytes);
// Serializes options. Returns `serialized` itself if it is not empty, so changes of other members are lost then.
std::string SerializeCompileOptions(const CompileOptions& options);

}  // namespace backplane

#endif  // BACKPLANE_CORE_IMPORT_COMPILE_OPTIONS_H_
