// Compiles a program and runs it once on a plugin; used by run, diff and bench.
#ifndef BACKPLANE_SDK_CLI_EXECUTION_H_
#define BACKPLANE_SDK_CLI_EXECUTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/cli/session.h"

namespace backplane::cli {

// Which layouts in the entry of an HLO proto count as requested. A proto states a layout for each array, even if the
// program requests none.
enum class Layouts : uint8_t {
  kReordered,  // all of them if an argument or the result has another order than the default, otherwise none
  kAll,
};

// Compiles a program. The options also request the layouts of an HLO proto's entry. Errors have the exit code of
// plugins.
absl::StatusOr<host::LoadedExecutable> CompileOn(const Session& session, const host::Program& program,
                                                 const host::CompileOptions& options = {},
                                                 Layouts layouts = Layouts::kReordered);
absl::StatusOr<std::vector<host::Buffer>> ToDevice(const Session& session, const std::vector<host::HostArray>& arrays);
// Runs the program with these inputs and copies the results to the host.
absl::StatusOr<std::vector<host::HostArray>> RunOnce(const Session& session, const host::LoadedExecutable& executable,
                                                     const std::vector<host::HostArray>& inputs);
// Runs the program with inputs that are on the device, and copies the results to the host.
absl::StatusOr<std::vector<host::HostArray>> RunOnBuffers(const Session& session,
                                                          const host::LoadedExecutable& executable,
                                                          const std::vector<host::Buffer>& buffers);
// Runs the program and waits until its results are ready. They are not copied. Donates no argument.
absl::Status RunToCompletion(const host::LoadedExecutable& executable,
                             const std::vector<const host::Buffer*>& arguments);
// Returns the compile log of an executable of one of our own plugins. UNIMPLEMENTED for plugins that keep none.
absl::StatusOr<std::string> ReadCompileLog(const Session& session, const host::LoadedExecutable& executable);
absl::StatusOr<std::vector<host::HostArray>> CompileAndRun(const Session& session, const host::Program& program,
                                                           const std::vector<host::HostArray>& inputs);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_EXECUTION_H_
