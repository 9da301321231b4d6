// A check: one requirement on plugins, and the function that tests it.
//
// A suite is a constant table of checks (suites.h lists them); there is no registration. Each check runs in a process
// of its own, so it may assume a fresh plugin and may leave it in any state.
#ifndef BACKPLANE_CONFORMANCE_KIT_CHECK_H_
#define BACKPLANE_CONFORMANCE_KIT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace backplane::conformance {

class Kit;

enum class Result : uint8_t {
  kPass,
  kFail,
  kUnsupported,  // the plugin does not implement it: the function is missing or returns UNIMPLEMENTED
  kSkip,         // this machine or run lacks a prerequisite, such as a second device
};
const char* ResultName(Result result);  // "pass", "fail", "unsupported", "skip"
// Parses the name of a result. Returns false if there is none of this name.
bool ResultFromName(absl::string_view name, Result* result);

struct Check {
  const char* id;  // "buffers.zero_size": suite, point, name
  // Prerequisites, separated by spaces: functions of the table ("PJRT_Buffer_Bitcast"), extensions ("ext:Layouts"), and
  // "devices:2" for a number of addressable devices. Empty: what every plugin has.
  const char* needs;
  const char* meaning;  // one line: what holds if the check passes
  void (*run)(Kit&);
  int limit_s = 0;  // time limit in seconds; 0 for the default of the runner
  // The published contract does not require it, but a good plugin does it. A failure is reported as advice and fails
  // the run only if the profile is strict.
  bool advice = false;
};

// The outcome of one check.
struct CheckOutcome {
  std::string id, meaning;
  Result result = Result::kFail;
  std::string detail;  // explanation; a few lines at most
  double seconds = 0;
  bool advice = false;
  std::string expected;  // the reason in the profile, if the profile expects this result
  bool unexpected_pass = false;
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CHECK_H_
