// Opens a plugin and its client according to the command line.
#ifndef BACKPLANE_SDK_CLI_SESSION_H_
#define BACKPLANE_SDK_CLI_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "sdk/cli/command.h"
#include "sdk/host/client.h"
#include "sdk/host/discovery.h"
#include "sdk/host/probe.h"

namespace backplane::cli {

// The options of all commands that use a plugin.
struct PluginOptions {
  std::vector<std::string> options;  // name=value for the client
  std::string python;                // a Python environment that is searched
  PluginLimits limits;

  // Adds --option, --python and --timeout. `opens`: the command opens plugins, so it runs in a child process, and
  // --call-timeout and --in-process are added. `*this` must live as long as the command, as a part of its state.
  void AddTo(Command* command, bool opens = true);
  host::DiscoveryOptions discovery() const;
};

struct Session {
  host::FoundPlugin found;
  const host::Plugin* plugin = nullptr;
  host::Client client;
};

// Returns the plugin and the options of its client: those of its manifest, then those of the command line.
absl::StatusOr<host::FoundPlugin> Locate(const std::string& what, const PluginOptions& options);

// Opens the plugin and creates its client.
absl::StatusOr<Session> OpenSession(const std::string& what, const PluginOptions& options);

// Opens a plugin that was located. `store`, which may be null, is for programs of several processes.
absl::StatusOr<Session> OpenFound(host::FoundPlugin found, std::shared_ptr<host::KeyValueStore> store);

// Queries the plugin in a child process that runs this program.
absl::StatusOr<host::ProbeResult> ProbePlugin(const host::FoundPlugin& found, const PluginOptions& options,
                                              bool create_client);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SESSION_H_
