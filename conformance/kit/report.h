// The reports of a run.
#ifndef BACKPLANE_CONFORMANCE_KIT_REPORT_H_
#define BACKPLANE_CONFORMANCE_KIT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "conformance/kit/check.h"
#include "conformance/kit/profile.h"
#include "sdk/host/json.h"

namespace backplane::conformance {

struct Report {
  std::string plugin;   // file name without its folder
  std::string profile;  // name, or empty
  host::Json facts;     // an object, see facts.h; null if the plugin could not be queried
  bool strict = false;
  double seconds = 0;
  std::vector<CheckOutcome> outcomes;
  std::vector<LevelResult> levels;
  std::vector<std::string> demanded;  // levels that must be reached
};

// How one outcome counts.
enum class Verdict {
  kGood,      // pass, unsupported, skip
  kExpected,  // as the profile expects
  kAdvice,    // failed advice
  kBad,       // a failure, or a pass that the profile excludes
};
Verdict JudgeOutcome(const CheckOutcome& outcome, bool strict);
// Whether no outcome is kBad and every demanded level is reached.
bool IsConformant(const Report& report);

// A summary for people. `colour`: with terminal colours. `verbose`: one line for each check.
std::string PrintConsole(const Report& report, bool colour, bool verbose);
std::string FormatJson(const Report& report);
std::string PrintJunit(const Report& report);
// A self-contained page; `baseline` may be null.
std::string PrintHtml(const Report& report, const Report* baseline);

// Returns the outcomes in the JSON of an earlier run.
absl::StatusOr<Report> ReadReport(absl::string_view json);

// Returns the changes: one line "id: was -> is" for each check whose result differs, and for each that was added or
// removed.
std::vector<std::string> FindDifferences(const Report& before, const Report& now);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_REPORT_H_
