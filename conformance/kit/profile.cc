#include "conformance/kit/profile.h"

#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace backplane::conformance {
namespace {

// Returns the lines of a text, with their numbers, without comments and blank lines. '#' starts a comment at the
// beginning or after a blank.
std::vector<std::pair<int, std::string>> Lines(absl::string_view text) {
  std::vector<std::pair<int, std::string>> lines;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
        line = line.substr(0, i);
        break;
      }
    }
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) lines.emplace_back(number, std::string(line));
  }
  return lines;
}

absl::Status At(absl::string_view name, int number, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", what));
}

}  // namespace

absl::StatusOr<Profile> ParseProfile(absl::string_view text, absl::string_view name) {
  Profile profile;
  profile.name = std::string(name);
  for (const auto& [number, line] : Lines(text)) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
    const std::string rest = words.size() > 1 ? std::string(absl::StripAsciiWhitespace(words[1])) : "";
    if (words[0] == "strict" && rest.empty()) {
      profile.strict = true;
    } else if (words[0] == "option" && !rest.empty()) {
      profile.options.push_back(rest);
    } else if (words[0] == "compile-option" && !rest.empty()) {
      profile.compile_options.push_back(rest);
    } else if (words[0] == "claims" && !rest.empty()) {
      profile.claims.push_back(rest);
    } else if (words[0] == "never" || words[0] == "not-yet" || words[0] == "varies") {
      const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
      if (parts.size() != 2 || absl::StripAsciiWhitespace(parts[1]).empty())
        return At(name, number, "expected a check and the reason");
      profile.lines.push_back({words[0] == "never"     ? Profile::Line::kNever
                               : words[0] == "not-yet" ? Profile::Line::kNotYet
                                                       : Profile::Line::kVaries,
                               parts[0], std::string(absl::StripAsciiWhitespace(parts[1])), number});
    } else {
      return At(name, number,
                absl::StrCat("expected option, strict, claims, never, not-yet or varies, found '", line, "'"));
    }
  }
  return profile;
}

absl::StatusOr<Level> ParseLevel(absl::string_view text, absl::string_view name) {
  Level level;
  level.name = std::string(name);
  if (absl::StartsWith(text, "# ")) level.meaning = std::string(text.substr(2, text.find('\n') - 2));
  for (const auto& [number, line] : Lines(text)) {
    if (absl::StrContains(line, ' ')) return At(name, number, absl::StrCat("expected one check, found '", line, "'"));
    level.patterns.push_back(line);
  }
  return level;
}

bool MatchesPattern(absl::string_view pattern, absl::string_view id) {
  if (absl::EndsWith(pattern, "*")) return absl::StartsWith(id, pattern.substr(0, pattern.size() - 1));
  return pattern == id;
}

absl::Status ApplyProfile(const Profile& profile, absl::Span<const std::string> all_ids,
                          std::vector<CheckOutcome>* outcomes) {
  constexpr const char* kNames[] = {"never: ", "not yet: ", "varies: "};
  for (const Profile::Line& line : profile.lines) {
    if (std::none_of(all_ids.begin(), all_ids.end(),
                     [&](const std::string& id) { return MatchesPattern(line.pattern, id); })) {
      return At(profile.name, line.number, absl::StrCat("no check meets '", line.pattern, "'"));
    }
    // A line for a group is out of date only if all checks of the group pass.
    const bool group = absl::EndsWith(line.pattern, "*");
    const bool out_of_date = std::none_of(outcomes->begin(), outcomes->end(), [&](const CheckOutcome& o) {
      return MatchesPattern(line.pattern, o.id) && o.result != Result::kPass;
    });
    for (CheckOutcome& outcome : *outcomes) {
      if (!MatchesPattern(line.pattern, outcome.id)) continue;
      if (outcome.result != Result::kPass) {
        outcome.expected = absl::StrCat(kNames[line.kind], line.reason);
      } else if (line.kind != Profile::Line::kVaries && (!group || out_of_date)) {
        outcome.unexpected_pass = true;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LevelResult> ComputeLevelResult(const Level& level, absl::Span<const std::string> all_ids,
                                               absl::Span<const CheckOutcome> outcomes) {
  std::map<std::string, Result> results;
  for (const CheckOutcome& outcome : outcomes) results[outcome.id] = outcome.result;
  LevelResult judged;
  judged.name = level.name;
  judged.meaning = level.meaning;
  for (const std::string& pattern : level.patterns) {
    bool any = false;
    for (const std::string& id : all_ids) {
      if (!MatchesPattern(pattern, id)) continue;
      any = true;
      ++judged.wanted;
      const auto found = results.find(id);
      if (found == results.end()) {
        ++judged.not_run;
      } else if (found->second == Result::kPass) {
        ++judged.passed;
      } else {
        judged.missing.push_back(id);
      }
    }
    if (!any) return absl::InvalidArgumentError(absl::StrCat("level ", level.name, ": no check meets '", pattern, "'"));
  }
  return judged;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> ListNames(const std::string& folder, absl::string_view suffix) {
  std::vector<std::string> names;
  if (DIR* dir = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(dir)) {
      const absl::string_view name = entry->d_name;
      if (name.size() > suffix.size() && absl::EndsWith(name, suffix))
        names.emplace_back(name.substr(0, name.size() - suffix.size()));
    }
    closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace backplane::conformance
