// Creates the project of `backplane new-plugin` from the files of a template.
#ifndef BACKPLANE_SDK_CLI_NEW_PLUGIN_H_
#define BACKPLANE_SDK_CLI_NEW_PLUGIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace backplane::cli {

// Returns OK, or the reason why the name is invalid. A name must be valid as a Python module, as a C++ identifier and
// as a platform name.
absl::Status CheckPluginName(const std::string& name);

// Copies every file under `templates` to `folder`, which must be empty or not exist. In contents and in names of files
// and folders, @name@, @Name@ (camel case), @NAME@ and @version@ (the version of Backplane) are replaced. Returns the
// files, relative to `folder`, sorted. On an error everything that was created is removed.
absl::StatusOr<std::vector<std::string>> MakeProject(const std::string& templates, const std::string& folder,
                                                     const std::string& name);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_NEW_PLUGIN_H_
