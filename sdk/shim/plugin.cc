#include "core/import/import.h"
#include "sdk/backend/collectives/transfer.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/ffi/registry.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

// The value of `xla_version`, by which XLA's hosts recognize features of the C API beyond its version; 2 is the current
// one.
constexpr int64_t kXlaVersion = 2;

// The StableHLO version for hosts before 0.61. jaxlib 0.4.35 writes exactly the version that it is told, and its newest
// version is 1.7.8. Other hosts use the older of this and their own, and can express everything in 1.7.
constexpr int64_t kStablehloVersionOfOldHosts[3] = {1, 7, 0};

std::vector<int64_t> Version(const int64_t (&v)[3]) { return {v[0], v[1], v[2]}; }

PluginState* MakePlugin() {
  auto* plugin = new PluginState;
  auto registry = std::make_shared<ffi::Registry>();
  plugin->services.custom_calls = registry;
  plugin->backend = CreateBackend(plugin->services);
  registry->SetPlatform(plugin->backend->platform_name());
  NamedValues attributes = plugin->backend->plugin_attributes();
  attributes["feed_channel"] = kFeedChannel;                       // ours: the channel of infeed and outfeed
  attributes["platform_name"] = plugin->backend->platform_name();  // ours: for a host without a client
  attributes["xla_version"] = kXlaVersion;
  attributes["stablehlo_current_version"] = Version(kNewestStablehloVersion);
  attributes["stablehlo_minimum_version"] = Version(kOldestStablehloVersion);
  plugin->attributes.Assign(attributes);
  attributes["stablehlo_current_version"] = Version(kStablehloVersionOfOldHosts);
  plugin->attributes_for_old_hosts.Assign(std::move(attributes));
  return plugin;
}

}  // namespace

PluginState& Plugin() {
  static PluginState* plugin = MakePlugin();  // lives as long as the process, like the objects that it returns
  return *plugin;
}

absl::Status Plugin_Initialize(PJRT_Plugin_Initialize_Args&) {
  Plugin();
  return absl::OkStatus();
}

absl::Status Plugin_Attributes(PJRT_Plugin_Attributes_Args& a) {
  const PluginState& plugin = Plugin();
  const NamedValueList& list = plugin.host_is_old.load() ? plugin.attributes_for_old_hosts : plugin.attributes;
  a.attributes = list.data();
  a.num_attributes = list.size();
  return absl::OkStatus();
}

}  // namespace backplane::shim
