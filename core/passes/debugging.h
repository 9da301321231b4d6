// Debugging options for all passes of the process: verify, disable, time and dump.
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
  bool verify = false;                // verifies the module after each pass, and the requirements of a pass before it
  bool time_each = false;             // logs the time of each pass, however short
  std::vector<std::string> disabled;  // names of passes to skip
  std::string dump_folder;            // receives the module as text before and after each pass that changes it

  // Reads the environment: BACKPLANE_VERIFY_PASSES and BACKPLANE_TIME_PASSES (on unless empty or 0),
  // BACKPLANE_DISABLE_PASSES (names, separated by commas), BACKPLANE_DUMP_PASSES (a folder, created if needed).
  static PassDebugging FromEnvironment();
  // Returns the options from the environment, read on first use. Thread-safe.
  static const PassDebugging& OfProcess();

  // Whether the pass is disabled. Returns InvalidArgument if the pass is required.
  absl::StatusOr<bool> IsDisabled(const Pass& pass) const;
};

// Writes the module of one step of a compilation to FOLDER/NUMBER.MODULE.PASS.WHEN.hlo. The numbers count all dumps of
// the process. Thread-safe.
absl::Status DumpModule(const std::string& folder, int64_t number, absl::string_view module_name,
                        absl::string_view pass, absl::string_view when, absl::string_view text);
int64_t NextDumpNumber();

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_DEBUGGING_H_
