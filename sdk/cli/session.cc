#include "sdk/cli/session.h"

#include "sdk/host/status.h"

namespace backplane::cli {

void PluginOptions::AddTo(Command* command, bool probe) {
  command->options.push_back({"--option,-o", &options, "an option of the client, may come many times", "NAME=VALUE"});
  command->options.push_back({"--python", &python, "look for plugins in this Python environment as well", "PREFIX"});
  command->options.push_back({"--timeout", &timeout, "seconds the plugin may take to come up", "SECONDS"});
  if (probe)
    command->options.push_back({"--no-probe", &no_probe, "open the plugin without asking it in a child process first"});
}

host::DiscoveryOptions PluginOptions::discovery() const {
  host::DiscoveryOptions d;
  if (!python.empty()) d.python_prefixes.push_back(python);
  return d;
}

absl::StatusOr<host::FoundPlugin> Locate(const std::string& what, const PluginOptions& options) {
  BP_ASSIGN_OR_RETURN(host::FoundPlugin found, host::FindPlugin(what, options.discovery()));
  for (const std::string& text : options.options) {
    BP_ASSIGN_OR_RETURN(host::NamedValue value, host::ParseNamedValue(text));
    found.create_options.push_back(std::move(value));
  }
  return found;
}

absl::StatusOr<host::ProbeResult> ProbePlugin(const host::FoundPlugin& found, const PluginOptions& options,
                                              bool create_client) {
  host::ProbeOptions probe;
  probe.timeout = absl::Seconds(options.timeout);
  probe.create_client = create_client;
  probe.create_options = found.create_options;
  probe.helper = {"/proc/self/exe", "--probe-child"};
  return host::Probe(found.library, probe);
}

absl::StatusOr<Session> OpenSession(const std::string& what, const PluginOptions& options) {
  BP_ASSIGN_OR_RETURN(host::FoundPlugin found, Locate(what, options));
  if (!options.no_probe) {
    BP_ASSIGN_OR_RETURN(const host::ProbeResult probe, ProbePlugin(found, options, true));
    BP_RETURN_IF_ERROR(FromPlugin(probe.status));
  }
  absl::StatusOr<const host::Plugin*> plugin = host::Plugin::Load(found.library);
  BP_RETURN_IF_ERROR(FromPlugin(plugin.status()));
  absl::StatusOr<host::Client> client = host::Client::Create(**plugin, found.create_options);
  BP_RETURN_IF_ERROR(FromPlugin(client.status()));
  return Session{std::move(found), *plugin, *std::move(client)};
}

}  // namespace backplane::cli
