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
  host::Json facts;     // an object, see facts.h; null when the plugin could not tell
  bool strict = false;
  double seconds = 0;
  std::vector<CheckOutcome> outcomes;
  std::vector<LevelResult> levels;
  std::vector<std::string> demanded;  // levels that must be met
};

// How one outcome counts.
enum class Verdict {
  kGood,      // pass, unsupported, skip
  kExpected,  // the profile foresaw it
  kAdvice,    // an advice that was not followed
  kBad,       // a failure, or a pass where the profile says there is none
};
Verdict VerdictOf(const CheckOutcome& outcome, bool strict);
// Nothing is bad and every level demanded is met.
bool Good(const Report& report);

// What a person reads in ten seconds. `colour`: with terminal colours. `verbose`: one line for each check.
std::string ConsoleText(const Report& report, bool colour, bool verbose);
std::string JsonText(const Report& report);
std::string JunitText(const Report& report);
// One page without outside references; `baseline` may be null.
std::string HtmlText(const Report& report, const Report* baseline);

// The outcomes of an earlier run's JSON.
absl::StatusOr<Report> ReadReport(absl::string_view json);

// What changed: one line for each check whose result differs, "id: was -> is", and for each that came or went.
std::vector<std::string> Differences(const Report& before, const Report& now);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_REPORT_H_
