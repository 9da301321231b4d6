// Finds the files that belong to the command by their position relative to its executable, in a build and in an
// installation.
#ifndef BACKPLANE_SDK_CLI_COMMAND_FILES_H_
#define BACKPLANE_SDK_CLI_COMMAND_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::cli {

// Returns the path of the running program.
absl::StatusOr<std::string> ThisCommand();

// Returns the absolute path of the shared library `file` of one kind ("layers", "plugins"): in the folder KIND next to
// the program's folder (a build), in the library folder of the prefix (an installation), or in the program's own
// folder. Empty if there is none.
std::string FindCommandLibrary(absl::string_view kind, absl::string_view file);

// Returns a folder of the command's data, bin/../share/backplane/NAME. Returns NOT_FOUND if it does not exist.
absl::StatusOr<std::string> FindCommandData(absl::string_view name);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_COMMAND_FILES_H_
