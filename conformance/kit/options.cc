#include "conformance/kit/options.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace backplane::conformance {
namespace {

// If installed, bin/ and share/backplane/conformance are siblings. Otherwise uses the source tree.
std::string DefaultData() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
  if (n > 0) {
    std::string folder(self, static_cast<size_t>(n));
    folder = folder.substr(0, folder.rfind('/'));
    const std::string installed = folder + "/../share/backplane/conformance";
    if (access((installed + "/levels").c_str(), R_OK) == 0) return installed;
  }
  return BACKPLANE_SOURCE_DIR "/conformance";
}

// Stores `text` in the target of the option. Returns false if it should be a number but is not.
bool Store(const std::string& text, const OptionTarget& target) {
  if (auto* const* s = std::get_if<std::string*>(&target)) return **s = text, true;
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&target)) return (*list)->push_back(text), true;
  if (auto* const* whole = std::get_if<int64_t*>(&target)) return absl::SimpleAtoi(text, *whole);
  if (auto* const* number = std::get_if<double*>(&target)) return absl::SimpleAtod(text, *number);
  return false;
}

}  // namespace

const char kExitStatusHelp[] =
    "Exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 the plugin cannot be opened, 4 the kit itself "
    "failed.";

std::vector<OptionLine> OptionLines(Options* o) {
  return {
      {"--list", "", "the checks, one a line, with what they mean; needs no plugin", &o->list},
      {"--only", "REGEX", "only checks whose id matches somewhere; may be repeated", &o->only},
      {"--level", "NAME", "only the checks of this level, which must be met; may be repeated", &o->levels},
      {"--suite", "NAMES", "only these suites, separated by commas", &o->suites},
      {"--profile", "FILE|NAME", "what is expected of this plugin: a file, or the name of one of the kit's own",
       &o->profile, true},
      {"--option,-o", "NAME=VALUE", "a create option for every client; may be repeated", &o->options},
      {"--compile-option", "NAME=VALUE", "an option of the platform's own for every program; may be repeated",
       &o->compile_options},
      {"--jobs", "N", "processes at a time; default: the number of cores", &o->jobs},
      {"--timeout", "SECONDS", "for a check that names no limit of its own; default 20", &o->timeout},
      {"--slow", "FACTOR", "multiplies every limit, for slow machines", &o->slow},
      {"--json", "FILE", "write the report for machines; '-' is standard output", &o->json, true},
      {"--junit", "FILE", "write the report for CI", &o->junit, true},
      {"--html", "FILE", "write the report as one page", &o->html, true},
      {"--baseline", "FILE", "an earlier --json: tells what changed", &o->baseline, true},
      {"--verbose,-v", "", "one line for each check", &o->verbose},
      {"--quiet,-q", "", "no progress", &o->quiet},
      {"--color", "WHEN", "auto, always or never", &o->color},
      {"--data", "DIR", "the folder with cases, levels and profiles", &o->data, true},
  };
}

std::string HelpText(const std::string& program) {
  std::string text = absl::StrCat(
      program, " PLUGIN [options]: judges a PJRT plugin, named by its path, its manifest or ", "its name.\n\n");
  Options none;
  for (const OptionLine& line : OptionLines(&none)) {
    absl::StrAppendFormat(&text, "  %-29s%s\n",
                          absl::StrCat(absl::StrReplaceAll(line.names, {{",", ", "}}), " ", line.value), line.help);
  }
  return absl::StrCat(text, "\n", kExitStatusHelp, "\n");
}

bool ParseOptions(const std::vector<std::string>& words, Options* o, std::string* problem) {
  std::vector<OptionLine> lines = OptionLines(o);
  lines.push_back({"--help,-h", "", "", &o->help});
  lines.push_back({"--strict", "", "", &o->strict});
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& w = words[i];
    if (w == "--run") {
      o->run.assign(words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (!absl::StartsWith(w, "-")) {
      if (!o->plugin.empty()) return *problem = absl::StrCat("one plugin at a time: ", o->plugin, " and ", w), false;
      o->plugin = w;
      continue;
    }
    // "--jobs 4" and "--jobs=4" are the same.
    const size_t equals = absl::StartsWith(w, "--") ? w.find('=') : std::string::npos;
    const std::string name = w.substr(0, equals);
    const OptionLine* line = nullptr;
    for (const OptionLine& l : lines) {
      for (absl::string_view n : absl::StrSplit(l.names, ',')) line = n == name ? &l : line;
    }
    if (line == nullptr) return *problem = absl::StrCat("unknown option ", name), false;
    if (auto* const* flag = std::get_if<bool*>(&line->target)) {
      if (equals != std::string::npos) return *problem = absl::StrCat(name, " takes no value"), false;
      **flag = true;
      continue;
    }
    if (equals == std::string::npos && ++i >= words.size())
      return *problem = absl::StrCat(name, " needs a value"), false;
    const std::string value = equals == std::string::npos ? words[i] : w.substr(equals + 1);
    if (!Store(value, line->target)) return *problem = absl::StrCat(name, " needs a number, not '", value, "'"), false;
  }
  return CheckOptions(o, problem);
}

bool CheckOptions(Options* o, std::string* problem) {
  if (o->jobs < 0 || o->jobs > 1024) return *problem = "--jobs needs a number from 1 to 1024", false;
  if (o->timeout < 1) return *problem = "--timeout needs a number from 1", false;
  if (!(o->slow > 0)) return *problem = "--slow needs a number above 0", false;
  if (o->color != "auto" && o->color != "always" && o->color != "never")
    return *problem = absl::StrCat("--color is auto, always or never, not '", o->color, "'"), false;
  if (o->data.empty()) o->data = DefaultData();
  return true;
}

}  // namespace backplane::conformance
