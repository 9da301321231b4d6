// A check: one thing a plugin must do, and the function that finds out.
//
// A suite is a constant table of checks (suites.h lists them); nothing registers itself. A check runs in a process of
// its own, so it may assume a fresh plugin and may end in any state.
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
  kUnsupported,  // the plugin says it cannot do this: the function is missing or answers UNIMPLEMENTED
  kSkip,         // this machine or this run lacks what the check needs, such as a second device
};
const char* ResultName(Result result);  // "pass", "fail", "unsupported", "skip"
// The result of that name; false when there is none.
bool ResultFromName(absl::string_view name, Result* result);

struct Check {
  const char* id;  // "buffers.zero_size": suite, point, name
  // What it needs, separated by spaces: names of functions of the table ("PJRT_Buffer_Bitcast"), of extensions
  // ("ext:Layouts"), and "devices:2" for so many addressable devices. Empty: what every plugin has.
  const char* needs;
  const char* meaning;  // one line: what holds when it passes
  void (*run)(Kit&);
  int limit_s = 0;  // seconds it may take; 0 for the runner's default
  // The published contract leaves this open; a good plugin does it all the same. A failure is told as advice and does
  // not make a run fail unless the profile is strict.
  bool advice = false;
};

// What came of one check.
struct CheckOutcome {
  std::string id, meaning;
  Result result = Result::kFail;
  std::string detail;  // why; a few lines at most
  double seconds = 0;
  bool advice = false;
  std::string expected;  // the profile's reason when the profile foresaw this result
  bool unexpected_pass = false;
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CHECK_H_
