// The create options of clients with several processes.
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/processes/process_group.h"

namespace backplane {
namespace {

constexpr char kNodeId[] = "node_id", kNumNodes[] = "num_nodes", kPartitionIndex[] = "partition_index",
               kTransport[] = "transport", kInterface[] = "network_interface",
               kSharedMemory[] = "shared_memory_megabytes", kConnectTimeout[] = "connect_timeout_seconds";
constexpr int64_t kMaxProcesses = 4096, kMaxSeconds = 86400, kMaxSharedMegabytes = 256;

// Takes an integer out of the options; `value` keeps its value if the option is not given.
absl::Status TakeInteger(NamedValues* options, const char* name, int64_t low, int64_t high, int64_t* value) {
  const auto at = options->find(name);
  if (at == options->end()) return absl::OkStatus();
  const std::optional<int64_t> n = ReadInteger(at->second);
  if (!n.has_value() || *n < low || *n > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("create option ", name, ": must be an integer from ", low, " to ", high));
  }
  *value = *n;
  options->erase(at);
  return absl::OkStatus();
}

absl::Status TakeString(NamedValues* options, const char* name, std::string* value) {
  const auto at = options->find(name);
  if (at == options->end()) return absl::OkStatus();
  const std::string* s = std::get_if<std::string>(&at->second);
  if (s == nullptr || s->empty())
    return absl::InvalidArgumentError(absl::StrCat("create option ", name, ": must be a text that is not empty"));
  *value = *s;
  options->erase(at);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProcessOptions> TakeProcessOptions(NamedValues* options) {
  ProcessOptions out;
  int64_t processes = 1, process = 0, partition = 0;
  int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(out.connect_limit).count();
  RETURN_IF_ERROR(TakeInteger(options, kNumNodes, 1, kMaxProcesses, &processes));
  RETURN_IF_ERROR(TakeInteger(options, kNodeId, 0, processes - 1, &process));
  RETURN_IF_ERROR(TakeInteger(options, kPartitionIndex, 0, INT32_MAX, &partition));
  RETURN_IF_ERROR(TakeInteger(options, kConnectTimeout, 1, kMaxSeconds, &seconds));
  if (options->count(kSharedMemory) != 0) {
    out.shared_megabytes = 0;
    RETURN_IF_ERROR(TakeInteger(options, kSharedMemory, 0, kMaxSharedMegabytes, &*out.shared_megabytes));
  }
  RETURN_IF_ERROR(TakeString(options, kTransport, &out.transport));
  RETURN_IF_ERROR(TakeString(options, kInterface, &out.network_interface));
  out.num_processes = static_cast<int32_t>(processes);
  out.process = static_cast<int32_t>(process);
  out.connect_limit = std::chrono::seconds(seconds);
  return out;
}

}  // namespace backplane
