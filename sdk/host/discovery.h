// Finds plugins without opening any.
//
// Places, in the order in which a name is looked for:
//   1. PJRT_NAMES_AND_LIBRARY_PATHS=name:path,name:path   a path may be a JSON file, see below
//   2. manifests: `*.json` in the folders (or files) of BACKPLANE_PLUGIN_PATH, separated by ':', then in
//   backplane/plugins.d
//      under XDG_CONFIG_HOME, XDG_CONFIG_DIRS, XDG_DATA_HOME and XDG_DATA_DIRS, with the defaults of the XDG
//      specification, then in DiscoveryOptions::manifest_folders
//   3. Python environments: wheels that hold a plugin, found by their entry points in the group `jax_plugins`, by the
//   namespace
//      package jax_plugins, or by the name libtpu; nothing of Python runs
//
// A manifest is an object with `library_path` (absolute, or relative to the manifest; or a bare name for the dynamic
// linker), and, if wanted, `name` (else the file's name without .json) and `create_options` (an object of strings,
// whole numbers, lists of whole numbers, numbers and booleans). Members that are not known are ignored.
//
// A plugin that cannot be described never hides another: what went wrong is returned beside what was found. Environment
// variables are not read in a process with raised privileges.
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
  std::vector<FoundPlugin> plugins;    // in the order above; a name may come twice
  std::vector<absl::Status> problems;  // of entries and files that could not be read
};

struct DiscoveryOptions {
  // Prefixes of Python environments (the folder with bin/ and lib/). Empty: VIRTUAL_ENV when it is set.
  std::vector<std::string> python_prefixes;
  // More folders of manifests, looked into after the others; what was found in them already is not told twice.
  std::vector<std::string> manifest_folders;
};

// The folder of manifests that was installed beside the running program, share/backplane/plugins.d of its prefix; empty
// when there is none.
std::vector<std::string> ManifestsOfThisProgram();

Discovery Discover(const DiscoveryOptions& options = {});

// One manifest.
absl::StatusOr<FoundPlugin> ReadManifest(const std::string& path);

// `what` is a path (anything with '/' or ending in ".so"), a manifest (ending in ".json"), or a name. NOT_FOUND lists
// the names there are.
absl::StatusOr<FoundPlugin> FindPlugin(const std::string& what, const DiscoveryOptions& options = {});

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_DISCOVERY_H_
