// The work of `backplane new-plugin`: a project from the files of a template.
#ifndef BACKPLANE_SDK_CLI_NEW_PLUGIN_H_
#define BACKPLANE_SDK_CLI_NEW_PLUGIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace backplane::cli {

// OK, or what is wrong with it: a name is a Python module, a C++ word and what hosts call the platform, all at once.
absl::Status CheckPluginName(const std::string& name);

// Copies every file under `templates` into `folder`, which must be empty or not there. In contents and in names of
// files and folders @name@, @Name@ (words joined, each with a capital), @NAME@ and @version@ (Backplane's) are
// replaced. Returns the files, relative to `folder`, sorted. What it began it takes away again when it fails.
absl::StatusOr<std::vector<std::string>> MakeProject(const std::string& templates, const std::string& folder,
                                                     const std::string& name);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_NEW_PLUGIN_H_
