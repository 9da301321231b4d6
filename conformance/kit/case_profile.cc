#include "conformance/kit/case_profile.h"

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace backplane::conformance {

const char* OutcomeName(Outcome::Kind kind) {
  return kind == Outcome::kPass ? "pass" : kind == Outcome::kFail ? "fail" : "unsupported";
}

absl::StatusOr<CaseProfile> CaseProfile::Parse(absl::string_view text, absl::string_view file) {
  CaseProfile profile;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.find_first_of(" \t");
    if (space == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(file, ":", number, ": '", line, "' without a reason"));
    }
    absl::string_view name = line.substr(0, space);
    Line entry;
    entry.prefix = absl::ConsumeSuffix(&name, "*");
    entry.name = std::string(name);
    entry.reason = std::string(absl::StripAsciiWhitespace(line.substr(space)));
    profile.lines_.push_back(std::move(entry));
  }
  return profile;
}

absl::StatusOr<CaseProfile> CaseProfile::Read(const std::string& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return Parse(text.str(), path);
}

std::string CaseTally::Add(const Case& c, const Outcome& outcome) {
  for (CaseProfile::Line& line : profile_->lines_) {
    if (line.prefix ? !absl::StartsWith(c.name, line.name) : c.name != line.name) continue;
    line.used = true;
    if (outcome.kind != Outcome::kPass) {
      ++known_;
      return "";
    }
    ++failed_;
    return absl::StrCat(c.name, ": passed, though the profile says: ", line.reason);
  }
  switch (outcome.kind) {
    case Outcome::kPass:
      ++passed_;
      return "";
    case Outcome::kUnsupported:
      ++(all_ ? failed_ : unsupported_);
      return absl::StrCat(c.name, " (", c.file, ":", c.line, "): unsupported: ", outcome.message);
    case Outcome::kFail:
      break;
  }
  ++failed_;
  return absl::StrCat(c.name, " (", c.file, ":", c.line, "): failed: ", outcome.message);
}

std::vector<std::string> CaseTally::Finish(bool complete) {
  std::vector<std::string> lines;
  if (!complete) return lines;
  for (const CaseProfile::Line& line : profile_->lines_) {
    if (line.used) continue;
    ++failed_;
    lines.push_back(absl::StrCat(line.name, line.prefix ? "*" : "", ": in the profile, but there is no such case"));
  }
  return lines;
}

std::string CaseTally::Summary() const {
  return absl::StrCat(passed_, " passed, ", failed_, " failed, ", unsupported_, " unsupported, ", known_,
                      " known not to pass");
}

}  // namespace backplane::conformance
