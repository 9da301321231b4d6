// The signature of an executable: the arguments that a launch takes and the outputs that it returns.
//
// Arguments and outputs are leaves: the arrays and tokens of the entry's parameters and result, in order. This header
// and ExecuteRequest identify an argument or an output by its number among these leaves, never by the number of a
// parameter of the entry, which may be a tuple of several leaves.
#ifndef BACKPLANE_SDK_BACKEND_EXECUTABLE_SIGNATURE_H_
#define BACKPLANE_SDK_BACKEND_EXECUTABLE_SIGNATURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ir/module.h"
#include "core/types/shape.h"

namespace backplane {

struct ParameterInfo {
  Shape shape;  // with layout
  std::string memory_kind = "device";
  bool donated = false;  // a launch consumes the buffer, for an output, unless the caller marks it non-donatable
  std::string name;      // for messages: "params['w']"; may be empty
  // A serialized OpSharding. If it is absent, the argument is replicated if any other parameter has a sharding;
  // otherwise nothing is known.
  std::optional<std::string> sharding;
};

struct OutputInfo {
  Shape shape;  // with layout
  std::string memory_kind = "device";
  std::optional<std::string> sharding;  // as for a parameter
  // The argument whose memory this output reuses if the caller donates it; -1: none. No two outputs have the same
  // alias.
  int32_t alias = -1;
};

struct ExecutableSignature {
  std::vector<ParameterInfo> parameters;
  std::vector<OutputInfo> outputs;
  int64_t num_replicas = 1, num_partitions = 1;

  // The number of devices on which one launch runs.
  int64_t device_count() const { return num_replicas * num_partitions; }
  // Replaces the aliases, one for each output, and marks the arguments that they name as donated.
  void SetAliases(absl::Span<const int32_t> aliases);
};

// The place where the layouts of arguments and outputs are stored.
enum class LayoutSource : uint8_t {
  kEntry,   // in the shapes of the entry's parameters and result
  kConfig,  // in ModuleConfig
};

// Describes the entry and the ModuleConfig of a module that has been through all passes. Arrays without a layout are
// row-major. Input-output aliases become aliases of leaves. Each argument and each output has at most one alias: the
// first one listed. An argument that is listed in another alias is donated as well. Ignores buffer donors, because the
// backend determines which outputs can use them (SetAliases, AliasDonors).
//
// Returns InvalidArgument if an alias names a parameter leaf that does not exist.
absl::StatusOr<ExecutableSignature> DescribeEntry(const Module& module, LayoutSource layouts);

// Assigns to each buffer donor of the module the first output without an alias that has the same shape, layout and
// memory kind. A donor without such an output is not donated. Returns InvalidArgument if a donor is not a leaf.
absl::Status AliasDonors(const Module& module, ExecutableSignature* signature);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EXECUTABLE_SIGNATURE_H_
