// Runs a program in several processes on this machine, and compares the results with those of one process.
#ifndef BACKPLANE_SDK_CLI_RUN_PROCESSES_H_
#define BACKPLANE_SDK_CLI_RUN_PROCESSES_H_

#include <functional>
#include <string>
#include <vector>

#include "sdk/cli/session.h"

namespace backplane::cli {

struct SeveralProcesses {
  int64_t count = 2;
  std::string plugin;
  PluginOptions options;
  // The options of the client of the one process, which needs as many devices as all others together. Empty: those of
  // the others, and the options by which our plugins and XLA's CPU plugin are told the number of devices.
  std::vector<std::string> single_options;
  bool compare = true;
  // The number of replicas; 0: one for each device of all processes and partition.
  int64_t num_replicas = 0, num_partitions = 1;
  host::Program program;
  // Returns the inputs of a device, counted from 0: partition p of replica r is number r * num_partitions + p.
  std::function<absl::StatusOr<std::vector<host::HostArray>>(int64_t device)> inputs;
};

struct DeviceResults {
  int64_t process = 0;
  std::vector<host::HostArray> arrays;
  std::vector<size_t> differing;  // the numbers of the arrays that differ from those of one process, in any bit
};

// Returns the results of all devices. Errors name the process. Each process opens the plugin with the create options
// node_id and num_nodes and a key-value store, as JAX does.
absl::StatusOr<std::vector<DeviceResults>> RunInProcesses(const SeveralProcesses& run);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_RUN_PROCESSES_H_
