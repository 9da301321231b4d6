// Compiling and running a program once on a plugin; used by run, diff and bench.
#ifndef BACKPLANE_SDK_CLI_EXECUTION_H_
#define BACKPLANE_SDK_CLI_EXECUTION_H_

#include <cstdint>
#include <vector>

#include "sdk/cli/session.h"

namespace backplane::cli {

// Which layouts of an HLO proto's entry are asked for. A proto names the usual order also where nobody asked.
enum class Layouts : uint8_t {
  kReordered,  // those of the arguments, and of the result, where one of them is in another order than the usual
  kAll,
};

// Compiles; layouts of an HLO proto's entry are asked for in the options too. Errors carry the plugin's exit code.
absl::StatusOr<host::LoadedExecutable> CompileOn(const Session& session, const host::Program& program,
                                                 const host::CompileOptions& options = {},
                                                 Layouts layouts = Layouts::kReordered);
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
