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
  double timeout = 60;               // seconds for a probe
  bool no_probe = false;

  // Adds --option, --python, --timeout and, with `probe`, --no-probe.
  void AddTo(Command* command, bool probe = true);
  host::DiscoveryOptions discovery() const;
};

struct Session {
  host::FoundPlugin found;
  const host::Plugin* plugin = nullptr;
  host::Client client;
};

// The plugin and the options of its client: those of its manifest, then those of the command line.
absl::StatusOr<host::FoundPlugin> Locate(const std::string& what, const PluginOptions& options);

// Asks the plugin in a child first, so that one that crashes or hangs ends in an error here; then opens it.
// `options.no_probe` leaves that out.
absl::StatusOr<Session> OpenSession(const std::string& what, const PluginOptions& options);

// A probe whose child is this program.
absl::StatusOr<host::ProbeResult> ProbePlugin(const host::FoundPlugin& found, const PluginOptions& options,
                                              bool create_client);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SESSION_H_
