// Which plugin and which layers: from variables and manifests.
//
// The variables:
//   BACKPLANE_LAYERS           names, outermost first: "trace,validate"; empty or unset: those of the manifest
//   BACKPLANE_LAYERS_PLUGIN    the plugin's library
//   BACKPLANE_LAYERS_MANIFEST  a manifest
//   BACKPLANE_<LAYER>_<NAME>   an option of a layer
//
// A manifest is JSON; both members may be missing. A relative path counts from the manifest's folder.
//   {"plugin": "/path/pjrt_plugin.so",
//    "layers": ["trace", {"name": "fault", "spec": "compile:2=RESOURCE_EXHAUSTED"}]}
//
// A manifest beside the library of layers, with its name and `.json` in place of `.so`, belongs to that copy of the
// library: its plugin goes before the variable, so that several copies can stand before several plugins.
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

// `library` is the path of the library of layers; `variable` reads an environment variable (null when unset).
// NOT_FOUND without a plugin; INVALID_ARGUMENT, which names the place, for what cannot be understood.
absl::StatusOr<Config> ReadConfig(const std::string& library, const std::function<const char*(const char*)>& variable);

absl::StatusOr<std::vector<std::unique_ptr<Layer>>> MakeLayers(const Config& config);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_CONFIG_H_
