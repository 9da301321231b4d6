// The configuration: plugin and layers, from environment variables and manifests.
//
// The variables:
//   BACKPLANE_LAYERS           names, outermost first: "trace,validate"; empty or unset: those of the manifest
//   BACKPLANE_LAYERS_PLUGIN    the path of the plugin
//   BACKPLANE_LAYERS_MANIFEST  the path of a manifest
//   BACKPLANE_<LAYER>_<NAME>   an option of a layer
//
// A manifest is a JSON object; both members are optional. A relative path is relative to the manifest's folder.
//   {"plugin": "/path/pjrt_plugin.so",
//    "layers": ["trace", {"name": "fault", "spec": "compile:2=RESOURCE_EXHAUSTED"}]}
//
// A manifest in the folder of the layers' library, with its name and `.json` instead of `.so`, belongs to that copy of
// the library. Its plugin overrides the variable, so that several copies can serve several plugins.
#ifndef BACKPLANE_SDK_LAYERS_CONFIG_H_
#define BACKPLANE_SDK_LAYERS_CONFIG_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {

struct Config {
  std::string plugin;
  std::vector<Options> layers;  // outermost first
};

// `library` is the path of the layers' library; `variable` reads an environment variable (null if it is unset). Returns
// NOT_FOUND if there is no plugin, INVALID_ARGUMENT with the position if the configuration is invalid.
absl::StatusOr<Config> ReadConfig(const std::string& library, const std::function<const char*(const char*)>& variable);

absl::StatusOr<std::vector<std::unique_ptr<Layer>>> MakeLayers(const Config& config);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_CONFIG_H_
