// run_cases PLUGIN FOLDER [--only TEXT] [--option NAME=VALUE] [--profile FILE] [--labels] [--table] [--verbose]
//
// Runs the case files of a folder on a plugin. Prints what does not pass and a closing line `N passed, N failed, N
// unsupported`; exits with 0 when nothing failed.
//
//   --only TEXT    cases whose name holds the text; several may be given
//   --option N=V   an option for the client, such as cpu_device_count=8
//   --profile FILE cases that are known not to pass, with a reason: `NAME  REASON` on each line, a name may end in `*`.
//   Each
//                  such line must be needed: a case of it that passes is a failure, and so is a line that meets no case
//   --labels       a refusal must name the rule that was broken, as our plugins do
//   --table        compile only; print for each case `NAME <tab> ROWS <tab> pass|fail|unsupported <tab> what the
//   compile log
//                  says of interpreted operations`, rows and lines separated by ` | `
//   --verbose      print every case with its outcome
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "conformance/kit/case_profile.h"
#include "conformance/kit/case_run.h"

namespace backplane::conformance {
namespace {

int Fail(absl::string_view what) {
  std::fprintf(stderr, "run_cases: %s\n", std::string(what).c_str());
  return 2;
}

std::string OneLine(std::string text) {
  for (char& ch : text) {
    if (ch == '\n' || ch == '\t') ch = ' ';
  }
  return text;
}

int Main(int argc, char** argv) {
  std::vector<std::string> positional, only;
  std::vector<host::NamedValue> options;
  std::string profile_path;
  bool labels = false, table = false, verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool takes_value = arg == "--only" || arg == "--option" || arg == "--profile";
    if (takes_value && i + 1 == argc) return Fail(absl::StrCat(arg, " needs a value"));
    if (arg == "--only") {
      only.push_back(argv[++i]);
    } else if (arg == "--profile") {
      profile_path = argv[++i];
    } else if (arg == "--option") {
      absl::StatusOr<host::NamedValue> option = host::ParseNamedValue(argv[++i]);
      if (!option.ok()) return Fail(option.status().message());
      options.push_back(*std::move(option));
    } else if (arg == "--labels") {
      labels = true;
    } else if (arg == "--table") {
      table = true;
    } else if (arg == "--verbose") {
      verbose = true;
    } else if (absl::StartsWith(arg, "--")) {
      return Fail(absl::StrCat("unknown option ", arg));
    } else {
      positional.push_back(arg);
    }
  }
  if (positional.size() != 2) return Fail("expected a plugin and a folder of case files");
  const absl::StatusOr<std::vector<Case>> cases = ReadCaseFolder(positional[1]);
  if (!cases.ok()) return Fail(cases.status().message());
  CaseProfile profile;
  if (!profile_path.empty()) {
    absl::StatusOr<CaseProfile> read = CaseProfile::Read(profile_path);
    if (!read.ok()) return Fail(read.status().message());
    profile = *std::move(read);
  }
  const absl::StatusOr<std::unique_ptr<CaseRunner>> runner = CaseRunner::Create(positional[0], options);
  if (!runner.ok()) return Fail(runner.status().message());

  CaseTally tally(&profile);
  for (const Case& c : *cases) {
    const auto wanted = [&](const std::string& text) { return absl::StrContains(c.name, text); };
    if (!only.empty() && std::none_of(only.begin(), only.end(), wanted)) continue;
    if (table) {
      if (c.fails) continue;
      const Outcome o = (*runner)->Compile(c);
      std::vector<std::string> interpreted;
      for (const std::string& line : o.compile_log) {
        if (absl::StrContains(line, "interpreted")) interpreted.push_back(OneLine(line));
      }
      std::printf("%s\t%s\t%s\t%s\n", c.name.c_str(), absl::StrJoin(c.covers, " | ").c_str(), OutcomeName(o.kind),
                  (o.kind == Outcome::kPass ? absl::StrJoin(interpreted, " | ") : OneLine(o.message)).c_str());
      continue;
    }
    if (verbose) {
      std::printf("%s ... ", c.name.c_str());
      std::fflush(stdout);
    }
    const Outcome o = (*runner)->Run(c, labels);
    if (verbose) std::printf("%s\n", OutcomeName(o.kind));
    const std::string line = tally.Add(c, o);
    if (!line.empty()) std::printf("%s\n", line.c_str());
  }
  if (table) return 0;
  // Lines of the profile can only be judged when all cases have run.
  for (const std::string& line : tally.Finish(/*complete=*/only.empty())) std::printf("%s\n", line.c_str());
  std::printf("%s\n", tally.Summary().c_str());
  return tally.failed() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace backplane::conformance

int main(int argc, char** argv) { return backplane::conformance::Main(argc, argv); }
