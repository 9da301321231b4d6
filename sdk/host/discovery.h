// Finds plugins without opening them.
//
// Names are looked up in this order:
//   1. PJRT_NAMES_AND_LIBRARY_PATHS=name:path,name:path. A path may be a JSON file, see below.
//   2. Manifests: `*.json` in the folders (or files) of BACKPLANE_PLUGIN_PATH, separated by ':'; then in
//      backplane/plugins.d under XDG_CONFIG_HOME, XDG_CONFIG_DIRS, XDG_DATA_HOME and XDG_DATA_DIRS, with the
//      defaults of the XDG specification; then in DiscoveryOptions::manifest_folders.
//   3. Python environments: wheels that contain a plugin. They are found by their entry points in the group
//      `jax_plugins`, by the namespace package jax_plugins, or by the name libtpu. No Python code runs.
//
// A manifest is an object with the member `library_path`: an absolute path, a path relative to the manifest, or a file
// name for the dynamic linker. Optional members are `name` (default: the file name without .json) and `create_options`
// (an object of strings, integers, lists of integers, numbers and booleans). Other members are ignored.
//
// Errors in one entry do not hide other plugins: they are returned beside the plugins that were found. A process with
// raised privileges does not read the environment variables.
#ifndef BACKPLANE_SDK_HOST_DISCOVERY_H_
#define BACKPLANE_SDK_HOST_DISCOVERY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/host/loader.h"

namespace backplane::host {

struct FoundPlugin {
  std::string name;     // "cpu", "xla_cuda13"
  std::string library;  // path for Plugin::Load
  std::string source;   // "environment", "manifest", "wheel" or "path"
  std::string origin;   // the variable, manifest or dist-info folder it was found in
  std::vector<NamedValue> create_options;
};

struct Discovery {
  std::vector<FoundPlugin> plugins;    // in the order above; a name may occur twice
  std::vector<absl::Status> problems;  // of entries and files that could not be read
};

struct DiscoveryOptions {
  // Prefixes of Python environments (the folders with bin/ and lib/). Empty: VIRTUAL_ENV if it is set.
  std::vector<std::string> python_prefixes;
  // More folders with manifests, which are searched last. Plugins that were found before are not listed again.
  std::vector<std::string> manifest_folders;
};

// Returns the folder of manifests that was installed with the running program, share/backplane/plugins.d in its prefix.
// Empty if there is none.
std::vector<std::string> FindManifestsOfThisProgram();

Discovery Discover(const DiscoveryOptions& options = {});

// Reads one manifest.
absl::StatusOr<FoundPlugin> ReadManifest(const std::string& path);

// `what` is a path (anything with '/' or ending in ".so"), a manifest (ending in ".json"), or a name. Returns
// NOT_FOUND, with the known names, if there is no such plugin.
absl::StatusOr<FoundPlugin> FindPlugin(const std::string& what, const DiscoveryOptions& options = {});

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_DISCOVERY_H_
