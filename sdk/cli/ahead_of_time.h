// Compilation without a client, for hardware that need not be in this machine, and the code of executables as text.
#ifndef BACKPLANE_SDK_CLI_AHEAD_OF_TIME_H_
#define BACKPLANE_SDK_CLI_AHEAD_OF_TIME_H_

#include <string>

#include "sdk/cli/session.h"

namespace backplane::cli {

struct CompiledAhead {
  host::FoundPlugin found;
  const host::Plugin* plugin = nullptr;
  host::Executable executable;
};

// Opens the plugin and compiles the program for the topology `target`, which the plugin defines: for the HIP plugin a
// GPU, such as "gfx942". The plugin's options go to the topology.
absl::StatusOr<CompiledAhead> CompileAhead(const std::string& what, const PluginOptions& options,
                                           const std::string& target, const host::Program& program,
                                           const host::CompileOptions& compile_options);

// Returns a form of the executable's code, through the extension of our own plugins; `name` is the plugin's, for
// messages.
absl::StatusOr<std::string> GetCodeText(const host::Plugin& plugin, const std::string& name,
                                        const host::Executable& executable, absl::string_view form);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_AHEAD_OF_TIME_H_
