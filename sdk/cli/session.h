// A plugin and its client, from what the command line says.
#ifndef BACKPLANE_SDK_CLI_SESSION_H_
#define BACKPLANE_SDK_CLI_SESSION_H_

#include <string>
#include <vector>

#include "sdk/cli/command.h"
#include "sdk/host/client.h"
#include "sdk/host/discovery.h"
#include "sdk/host/probe.h"

namespace backplane::cli {

// What every command that uses a plugin takes.
struct PluginOptions {
  std::vector<std::string> options;  // name=value for the client
  std::string python;                // a Python environment to look into
  PluginLimits limits;

  // Adds --option, --python and --timeout. With `opens` the command opens plugins: it is done in a child process, and
  // --call-timeout and --in-process are added. `*this` must live as long as the command, in its state.
  void AddTo(Command* command, bool opens = true);
  host::DiscoveryOptions discovery() const;
};

struct Session {
  host::FoundPlugin found;
  const host::Plugin* plugin = nullptr;
  host::Client client;
};

// The plugin and the options of its client: those of its manifest, then those of the command line.
absl::StatusOr<host::FoundPlugin> Locate(const std::string& what, const PluginOptions& options);

// Opens the plugin and makes its client.
absl::StatusOr<Session> OpenSession(const std::string& what, const PluginOptions& options);

// A probe whose child is this program.
absl::StatusOr<host::ProbeResult> ProbePlugin(const host::FoundPlugin& found, const PluginOptions& options,
                                              bool create_client);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SESSION_H_
