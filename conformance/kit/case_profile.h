// What is known not to pass, and the count of what did.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_PROFILE_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "conformance/kit/case_file.h"

namespace backplane::conformance {

struct Outcome {
  enum Kind {
    kPass,
    kFail,         // wrong values, an error where there should be none, or none where there should be one
    kUnsupported,  // the plugin says UNIMPLEMENTED, or has not as many devices as the case asks for
  } kind = kPass;
  std::string message;                      // why it is not a pass
  std::vector<std::string> compile_log;     // of our plugins, line by line; empty for others
  std::vector<std::vector<Array>> outputs;  // what came out, right or wrong, by device; empty where nothing ran
};
const char* OutcomeName(Outcome::Kind kind);  // "pass", "fail", "unsupported"

// Lines `NAME  REASON`: the name of a case, or what its name begins with and `*`; then, after white space, why it does
// not pass. Lines that begin with '#' are comments.
class CaseProfile {
 public:
  static absl::StatusOr<CaseProfile> Parse(absl::string_view text, absl::string_view file);
  static absl::StatusOr<CaseProfile> Read(const std::string& path);

 private:
  friend class CaseTally;
  struct Line {
    std::string name, reason;
    bool prefix = false, used = false;
  };
  std::vector<Line> lines_;
};

class CaseTally {
 public:
  // With `all` what is unsupported counts as a failure too.
  explicit CaseTally(CaseProfile* profile, bool all = false) : profile_(profile), all_(all) {}
  // What there is to say about this case: nothing when it passed, or did not and the profile says so. A case that
  // passes against the profile has failed.
  std::string Add(const Case& c, const Outcome& outcome);
  // Lines of the profile that met no case; they count as failures. Only when all cases were run.
  std::vector<std::string> Finish(bool complete);
  std::string Summary() const;  // "7 passed, 1 failed, 2 unsupported, 3 known not to pass"
  int failed() const { return failed_; }

 private:
  CaseProfile* const profile_;
  const bool all_;
  int passed_ = 0, failed_ = 0, unsupported_ = 0, known_ = 0;
};

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_PROFILE_H_
