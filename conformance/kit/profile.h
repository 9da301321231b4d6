// Text files that say what is expected of a plugin: profiles and levels.
//
// A profile, one line each, '#' begins a comment:
//   option NAME=VALUE        a create option for every client
//   compile-option NAME=VALUE  a compile option of the platform's own for every program
//   strict                   advice counts like a rule, and errors must carry the labels that cases name
//   claims LEVEL             the level is promised: the run fails when it is not met
//   never ID REASON          this check will not pass on this plugin, and why
//   not-yet ID REASON        this check does not pass yet, and why
//   varies ID REASON         this check passes on some machines or in some runs and not in others, and why
// An ID may end with '*'. A check that passes though it is listed as never or not-yet is a failure: the line is out of
// date. A line that meets no check is an error, so that no list outlives what it speaks of.
//
// A level is a list of IDs, one a line, with '*' at the end where a whole suite or group is meant; '#' begins a
// comment. A level is met when each of its checks passes.
#ifndef BACKPLANE_CONFORMANCE_KIT_PROFILE_H_
#define BACKPLANE_CONFORMANCE_KIT_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "conformance/kit/check.h"

namespace backplane::conformance {

struct Profile {
  struct Line {
    enum Kind { kNever, kNotYet, kVaries } kind = kNever;
    std::string pattern, reason;
    int number = 0;
  };
  std::string name;
  std::vector<std::string> options, compile_options;
  std::vector<std::string> claims;
  bool strict = false;
  std::vector<Line> lines;
};
// INVALID_ARGUMENT with "name:line: ".
absl::StatusOr<Profile> ParseProfile(absl::string_view text, absl::string_view name);

struct Level {
  std::string name, meaning;  // meaning: its first comment line
  std::vector<std::string> patterns;
};
absl::StatusOr<Level> ParseLevel(absl::string_view text, absl::string_view name);

// "execute.*" meets "execute.donation"; without '*' only the equal id.
bool Meets(absl::string_view pattern, absl::string_view id);

// Notes on each outcome what the profile says of it. `all_ids`: every check there is; a line that meets none of them is
// INVALID_ARGUMENT.
absl::Status ApplyProfile(const Profile& profile, absl::Span<const std::string> all_ids,
                          std::vector<CheckOutcome>* outcomes);

struct LevelResult {
  std::string name, meaning;
  size_t passed = 0, wanted = 0, not_run = 0;
  std::vector<std::string> missing;  // ids that ran and did not pass
  bool met() const { return passed == wanted && wanted > 0; }
};
// How far the outcomes go. `all_ids` as above: a check of the level that did not run counts as not run.
absl::StatusOr<LevelResult> JudgeLevel(const Level& level, absl::Span<const std::string> all_ids,
                                       absl::Span<const CheckOutcome> outcomes);

// The text of a file; NOT_FOUND.
absl::StatusOr<std::string> ReadText(const std::string& path);
// The names of the files of a folder that end with `suffix`, sorted, without it.
std::vector<std::string> NamesIn(const std::string& folder, absl::string_view suffix);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_PROFILE_H_
