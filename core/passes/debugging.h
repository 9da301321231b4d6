// What can be asked of all passes of a process, to find out what they do.
#ifndef BACKPLANE_CORE_PASSES_DEBUGGING_H_
#define BACKPLANE_CORE_PASSES_DEBUGGING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane {

class Module;
class Pass;

struct PassDebugging {
  bool verify = false;                // the module after each pass, and what a pass needs before it
  bool time_each = false;             // a line in the compile log for each pass, however short it took
  std::vector<std::string> disabled;  // names of passes to leave out
  std::string dump_folder;            // where the module goes as text, before and after each pass that changes it

  // From the environment: BACKPLANE_VERIFY_PASSES and BACKPLANE_TIME_PASSES (neither empty nor 0),
  // BACKPLANE_DISABLE_PASSES (names, separated by commas), BACKPLANE_DUMP_PASSES (a folder, which is made).
  static PassDebugging FromEnvironment();
  // The same, read when first asked for. Thread-safe.
  static const PassDebugging& OfProcess();

  // Whether the pass is to be left out. InvalidArgument where the passes behind it count on it.
  absl::StatusOr<bool> Disables(const Pass& pass) const;
};

// Writes a module of one step of a compilation: FOLDER/NUMBER.MODULE.PASS.WHEN.hlo. Numbers count up through all
// dumps of the process. Thread-safe.
absl::Status DumpModule(const std::string& folder, int64_t number, absl::string_view module_name,
                        absl::string_view pass, absl::string_view when, absl::string_view text);
int64_t NextDumpNumber();

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_DEBUGGING_H_
