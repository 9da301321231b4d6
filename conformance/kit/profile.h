// Text files with expectations about a plugin: profiles and levels.
//
// A profile has one entry per line; '#' starts a comment:
//
//   option NAME=VALUE          a create option for every client
//   compile-option NAME=VALUE  a platform-specific compile option for every program
//   strict                     failed advice counts as a failure, and errors must contain the labels that cases name
//   claims LEVEL               the level is claimed: the run fails unless it is reached
//   never ID REASON            this check will not pass on this plugin, and why
//   not-yet ID REASON          this check does not pass yet, and why
//   varies ID REASON           this check passes on some machines or in some runs only, and why
//
// An ID may end with '*'. A check that passes although it is listed as never or not-yet is a failure: the line is out
// of date. A line that matches no check is an error.
//
// A level is a list of IDs, one per line, with '*' at the end for a whole suite or group; '#' starts a comment. A level
// is reached if each of its checks passes.
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
// Returns INVALID_ARGUMENT with "name:line: ".
absl::StatusOr<Profile> ParseProfile(absl::string_view text, absl::string_view name);

struct Level {
  std::string name, meaning;  // meaning: its first comment line
  std::vector<std::string> patterns;
};
absl::StatusOr<Level> ParseLevel(absl::string_view text, absl::string_view name);

// Whether a pattern such as "execute.*" matches "execute.donation". Without '*' the ids must be equal.
bool MatchesPattern(absl::string_view pattern, absl::string_view id);

// Stores in each outcome what the profile says about it. `all_ids` lists every check. Returns INVALID_ARGUMENT for a
// line that matches none of them.
absl::Status ApplyProfile(const Profile& profile, absl::Span<const std::string> all_ids,
                          std::vector<CheckOutcome>* outcomes);

struct LevelResult {
  std::string name, meaning;
  size_t passed = 0, wanted = 0, not_run = 0;
  std::vector<std::string> missing;  // ids of checks that ran and did not pass
  bool met() const { return passed == wanted && wanted > 0; }
};
// Computes how far the level is reached. A check of the level that did not run counts as not run.
absl::StatusOr<LevelResult> ComputeLevelResult(const Level& level, absl::Span<const std::string> all_ids,
                                               absl::Span<const CheckOutcome> outcomes);

// Reads a file. Returns NOT_FOUND.
absl::StatusOr<std::string> ReadText(const std::string& path);
// Returns the names of the files of a folder that end with `suffix`, sorted, without the suffix.
std::vector<std::string> ListNames(const std::string& folder, absl::string_view suffix);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_PROFILE_H_
