// Profiles: the cases that are known to fail, and the counts of outcomes.
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
    kFail,         // wrong values, or an unexpected error or success
    kUnsupported,  // the plugin returns UNIMPLEMENTED, or has fewer devices than the case needs
  } kind = kPass;
  std::string message;                      // why it is not a pass
  std::vector<std::string> compile_log;     // by line; only our plugins write one
  std::vector<std::vector<Array>> outputs;  // results by device, right or wrong; empty if nothing ran
};
const char* OutcomeName(Outcome::Kind kind);  // "pass", "fail", "unsupported"

// Parses lines `NAME  REASON`: the name of a case, or a prefix and `*`, then white space and the reason why it does not
// pass. Lines that start with '#' are comments.
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
  // With `all`, unsupported cases count as failures too.
  explicit CaseTally(CaseProfile* profile, bool all = false) : profile_(profile), all_(all) {}
  // Returns the message for this case, or nothing if it passed or the profile lists it. A case that passes although the
  // profile lists it has failed.
  std::string Add(const Case& c, const Outcome& outcome);
  // Returns the lines of the profile that match no case; they count as failures. Valid only after all cases have run.
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
