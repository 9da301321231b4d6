#include "conformance/kit/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

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

// Numbers are decimal: CLI11 would read "030" as an octal number.
std::string DropLeadingZeros(std::string& number) {
  while (number.size() > 1 && number[0] == '0') number.erase(0, 1);
  return "";
}

void AddOption(const OptionLine& line, CLI::App* app) {
  CLI::Option* added = std::visit(
      [&](auto* target) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(target), bool*>) {
          return app->add_flag(line.names, *target)->disable_flag_override();
        } else {
          CLI::Option* option = app->add_option(line.names, *target);
          if constexpr (std::is_arithmetic_v<std::remove_pointer_t<decltype(target)>>)
            option->transform(CLI::Validator(DropLeadingZeros, ""));
          return option;
        }
      },
      line.target);
  // Each use takes one value, so that the next argument stays positional.
  if (std::holds_alternative<std::vector<std::string>*>(line.target)) {
    added->expected(1)->take_all()->allow_extra_args(false);
  } else {
    added->take_last();  // a later use overrides an earlier one, so that a wrapper can supply defaults
  }
}

}  // namespace

const char kExitStatusHelp[] =
    "Exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 the plugin cannot be opened, 4 the kit itself "
    "failed.";

std::vector<OptionLine> MakeOptionLines(Options* o) {
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
      {"--processes", "N",
       "run the suite `processes`, each check in so many processes at once; no other suite unless it is named",
       &o->processes},
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

std::string PrintHelp(const std::string& program) {
  std::string text = absl::StrCat(
      program, " PLUGIN [options]: judges a PJRT plugin, named by its path, its manifest or ", "its name.\n\n");
  Options none;
  for (const OptionLine& line : MakeOptionLines(&none)) {
    absl::StrAppendFormat(&text, "  %-29s%s\n",
                          absl::StrCat(absl::StrReplaceAll(line.names, {{",", ", "}}), " ", line.value), line.help);
  }
  return absl::StrCat(text, "\n", kExitStatusHelp, "\n");
}

bool ParseOptions(const std::vector<std::string>& words, Options* o, std::string* problem) {
  CLI::App app;
  app.set_help_flag();  // --help is an option like the others: the caller prints the text
  for (const OptionLine& line : MakeOptionLines(o)) AddOption(line, &app);
  AddOption({"--help,-h", "", "", &o->help}, &app);
  AddOption({"--strict", "", "", &o->strict}, &app);
  app.add_option("plugin", o->plugin);
  // The arguments after --run are ids of checks.
  const auto run = std::find(words.begin(), words.end(), "--run");
  if (run != words.end()) o->run.assign(run + 1, words.end());
  // CLI11 would take the next argument as the value.
  const auto empty = std::find_if(words.begin(), run, [](const std::string& word) {
    return absl::StartsWith(word, "--") && word.find('=') + 1 == word.size();
  });
  if (empty != run) return *problem = absl::StrCat(*empty, " needs a value"), false;
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(run), words.rend()));  // CLI11 expects reverse order
  } catch (const CLI::ParseError& e) {
    return *problem = e.what(), false;
  }
  return CheckOptions(o, problem);
}

bool CheckOptions(Options* o, std::string* problem) {
  if (o->jobs < 0 || o->jobs > 1024) return *problem = "--jobs needs a number from 1 to 1024", false;
  if (o->processes < 0 || o->processes == 1 || o->processes > 64)
    return *problem = "--processes needs a number from 2 to 64", false;
  if (o->timeout < 1) return *problem = "--timeout needs a number from 1", false;
  if (!(o->slow > 0)) return *problem = "--slow needs a number above 0", false;
  if (o->color != "auto" && o->color != "always" && o->color != "never")
    return *problem = absl::StrCat("--color is auto, always or never, not '", o->color, "'"), false;
  if (o->data.empty()) o->data = DefaultData();
  return true;
}

}  // namespace backplane::conformance
