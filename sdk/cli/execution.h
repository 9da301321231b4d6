// Compiling and running a program once on a plugin; used by run, diff and bench.
#ifndef BACKPLANE_SDK_CLI_EXECUTION_H_
#define BACKPLANE_SDK_CLI_EXECUTION_H_

#include <vector>

#include "sdk/cli/session.h"

namespace backplane::cli {

// Compiles; the layouts that an HLO proto's entry names are asked for in the options too. Errors carry the plugin's exit code.
absl::StatusOr<host::LoadedExecutable> CompileOn(const Session& session, const host::Program& program,
                                                 const host::CompileOptions& options = {});
absl::StatusOr<std::vector<host::Buffer>> ToDevice(const Session& session, const std::vector<host::HostArray>& arrays);
// Runs with these inputs and copies the results to the host.
absl::StatusOr<std::vector<host::HostArray>> RunOnce(const Session& session, const host::LoadedExecutable& executable,
                                                     const std::vector<host::HostArray>& inputs);
// The same with buffers that are on the device.
absl::StatusOr<std::vector<host::HostArray>> RunOnBuffers(const Session& session,
                                                          const host::LoadedExecutable& executable,
                                                          const std::vector<host::Buffer>& buffers);
absl::StatusOr<std::vector<host::HostArray>> CompileAndRun(const Session& session, const host::Program& program,
                                                           const std::vector<host::HostArray>& inputs);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_EXECUTION_H_
