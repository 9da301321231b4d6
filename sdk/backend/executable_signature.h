// The signature of an executable: what a launch of it takes and gives.
//
// Arguments and outputs are leaves: the arrays and tokens of the entry's parameters and result, in order. Everything
// that names an argument or an output here and in ExecuteRequest names it by its number among them, never by the
// number of a parameter, which may be a tuple of several leaves.
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
  bool donated = false;  // the caller's buffer is consumed (its memory is an output's) unless marked non-donatable
  std::string name;      // for messages: "params['w']"; may be empty
  // A serialized OpSharding. Absent: replicated where another parameter has one, else nothing is known.
  std::optional<std::string> sharding;
};

struct OutputInfo {
  Shape shape;  // with layout
  std::string memory_kind = "device";
  std::optional<std::string> sharding;  // as of a parameter
  // The argument whose memory this output takes where the caller donates it; -1: none. No two outputs name the same.
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

// Where the layouts of arguments and outputs are written.
enum class LayoutSource : uint8_t {
  kEntry,   // in the shapes of the entry's parameters and result
  kConfig,  // in ModuleConfig
};

// Describes a module that has been through all passes, by its entry and its ModuleConfig. Arrays without a layout are
// row-major. Input-output aliases become aliases of leaves, of which each argument and each output has at most one; the
// first named wins. An argument that an alias names is donated even where another alias has won. Buffer donors are not
// looked at: which output can use one depends on the backend (SetAliases, AliasDonors).
//
// InvalidArgument where an alias names a parameter leaf that does not exist.
absl::StatusOr<ExecutableSignature> DescribeEntry(const Module& module, LayoutSource layouts);

// Lets each buffer donor of the module serve the first output without an alias that has the same shape, layout and
// memory kind. A donor that no such output is left for is not donated. InvalidArgument where a donor is no leaf.
absl::Status AliasDonors(const Module& module, ExecutableSignature* signature);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EXECUTABLE_SIGNATURE_H_
