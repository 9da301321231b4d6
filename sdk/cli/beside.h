// What comes with the command and is found from its own place, as built and as installed.
#ifndef BACKPLANE_SDK_CLI_BESIDE_H_
#define BACKPLANE_SDK_CLI_BESIDE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::cli {

// The path of the running program.
absl::StatusOr<std::string> ThisCommand();

// The shared library `file` of one kind ("layers", "plugins"), an absolute path: from KIND beside the program's folder
// where it was built, from the prefix's library folder where it is installed, or from the program's own folder. Empty
// when it is in none of them.
std::string LibraryBesideCommand(absl::string_view kind, absl::string_view file);

// A folder of the command's data, bin/../share/backplane/NAME. NOT_FOUND when it is not there.
absl::StatusOr<std::string> DataBesideCommand(absl::string_view name);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_BESIDE_H_
