#include "sdk/cli/session.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::cli {

void PluginOptions::AddTo(Command* command, bool opens) {
  command->options.push_back({"--option,-o", &options, "an option of the client; may be repeated", "NAME=VALUE"});
  command->options.push_back({"--python", &python, "also search this Python environment for plugins", "PREFIX"});
  command->options.push_back(
      Bounded(0.01, 1e6, {"--timeout", &limits.start, "seconds until the plugin must be ready", "SECONDS"}));
  if (!opens) return;
  command->options.push_back(Bounded(
      0, 1e6,
      {"--call-timeout", &limits.call, "seconds any later call into the plugin may take; 0: no limit", "SECONDS"}));
  command->options.push_back(
      {"--in-process", &limits.in_process, "open the plugin in this process and not in a child; for debuggers"});
  command->limits = &limits;
}

host::DiscoveryOptions PluginOptions::discovery() const {
  host::DiscoveryOptions d;
  d.manifest_folders = host::FindManifestsOfThisProgram();
  if (!python.empty()) d.python_prefixes.push_back(python);
  return d;
}

absl::StatusOr<host::FoundPlugin> Locate(const std::string& what, const PluginOptions& options) {
  std::error_code error;
  if (!options.python.empty() && !std::filesystem::is_directory(options.python, error)) {
    return absl::NotFoundError(absl::StrCat(options.python, ": no such Python environment"));
  }
  absl::StatusOr<host::FoundPlugin> found = host::FindPlugin(what, options.discovery());
  if (!found.ok()) {
    if (!std::filesystem::is_regular_file(what, error)) return found.status();
    return absl::NotFoundError(
        absl::StrCat(absl::string_view(found.status().message()), "; for the file of that name say ./", what));
  }
  // The dynamic linker finds a name without a folder.
  if (absl::StrContains(found->library, '/') && !std::filesystem::exists(found->library, error)) {
    const bool named = found->source != "path";
    return absl::NotFoundError(absl::StrCat(found->library, ": no such file", named ? ", which is named by " : "",
                                            named ? found->origin : ""));
  }
  for (const std::string& text : options.options) {
    absl::StatusOr<host::NamedValue> value = host::ParseNamedValue(text);
    if (!value.ok()) return MakeUsageError(absl::string_view(value.status().message()));
    found->create_options.push_back(*std::move(value));
  }
  return found;
}

absl::StatusOr<host::ProbeResult> ProbePlugin(const host::FoundPlugin& found, const PluginOptions& options,
                                              bool create_client) {
  host::ProbeOptions probe;
  probe.timeout = absl::Seconds(options.limits.start);
  probe.create_client = create_client;
  probe.create_options = found.create_options;
  probe.helper = {"/proc/self/exe", "--probe-child"};
  return host::Probe(found.library, probe);
}

absl::StatusOr<Session> OpenSession(const std::string& what, const PluginOptions& options) {
  BP_ASSIGN_OR_RETURN(host::FoundPlugin found, Locate(what, options));
  return OpenFound(std::move(found), nullptr);
}

absl::StatusOr<Session> OpenFound(host::FoundPlugin found, std::shared_ptr<host::KeyValueStore> store) {
  const PluginStartup starting_up(found.library);
  absl::StatusOr<const host::Plugin*> plugin = host::Plugin::Load(found.library);
  BP_RETURN_IF_ERROR(FromPlugin(plugin.status()));
  absl::StatusOr<host::Client> client = host::Client::Create(**plugin, found.create_options, std::move(store));
  BP_RETURN_IF_ERROR(FromPlugin(host::AddContext(client.status(), absl::StrCat(found.library, ": no client"))));
  return Session{std::move(found), *plugin, *std::move(client)};
}

}  // namespace backplane::cli
