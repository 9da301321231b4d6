// run_cases PLUGIN FOLDER [--only TEXT] [--option NAME=VALUE] [--profile FILE] [--ours] [--table] [--verbose]
//
// Runs the case files of a folder on a plugin. Prints what does not pass and a closing line `N passed, N failed, N
// unsupported`; exits with 0 when nothing failed.
//
//   --only TEXT    cases whose name holds the text; several may be given
//   --option N=V   an option for the client, such as cpu_device_count=8
//   --profile FILE cases that are known not to pass, with a reason: `NAME  REASON` on each line, a name may end in `*`.
//   Each
//                  such line must be needed: a case of it that passes is a failure, and so is a line that meets no case
//   --ours         hold the plugin to what ours promise: a refusal names the rule that was broken, and nothing is
//   unsupported
//   --table        compiles only, for every element type: prints what became of every row of the list of operations, a
//   line
//                  `ROW <tab> CASE <tab> TYPE <tab> compiled|interpreted|refused|unimplemented <tab> WHY` for each form
//                  that was tried. TYPE is that of the variable T, or of the first argument or result; WHY holds the
//                  compile log's lines `interpreted: OPCODE SHAPE: REASON`, separated by ` | `
//   --verbose      print every case with its outcome
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
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

ElementType TypeOf(const Case& c) {
  for (const auto& [name, value] : c.bindings) {
    const std::optional<ElementType> type = ElementTypeFromName(value);
    if (name == "T" && type) return *type;
  }
  return !c.inputs[0].empty()    ? c.inputs[0][0].type
         : !c.outputs[0].empty() ? c.outputs[0][0].value.type
                                 : ElementType::kPred;
}

// What became of one program: how, and why not better.
std::pair<std::string, std::string> Verdict(const Outcome& o) {
  if (o.kind == Outcome::kUnsupported) return {"unimplemented", OneLine(o.message)};
  if (o.kind == Outcome::kFail) return {"refused", OneLine(o.message)};
  std::vector<std::string> lines;
  for (const std::string& line : o.compile_log) {
    if (absl::StrContains(line, "interpreted: ")) lines.push_back(OneLine(line));
  }
  return {lines.empty() ? "compiled" : "interpreted", absl::StrJoin(lines, " | ")};
}

// Each row by its first cases, and by those that name element types which the ones before do not.
int Table(const std::string& plugin, const std::string& folder, const std::vector<host::NamedValue>& options) {
  const absl::StatusOr<std::vector<TypedCase>> cases = ReadCaseFolderForEveryType(folder);
  if (!cases.ok()) return Fail(cases.status().message());
  const absl::StatusOr<std::unique_ptr<CaseRunner>> runner = CaseRunner::Create(plugin, options);
  if (!runner.ok()) return Fail(runner.status().message());
  std::map<std::string, std::vector<std::string>> drafts_of_row;
  std::map<std::string, std::vector<const TypedCase*>> cases_of_draft;
  for (const TypedCase& t : *cases) {
    std::vector<const TypedCase*>& same = cases_of_draft[t.draft];
    if (same.empty()) {
      for (const std::string& row : t.value.covers) drafts_of_row[row].push_back(t.draft);
    }
    same.push_back(&t);
  }
  std::map<std::string, std::pair<std::string, std::string>> known;
  for (const auto& [row, drafts] : drafts_of_row) {
    std::set<ElementType> named;
    for (const std::string& draft : drafts) {
      std::set<ElementType> fresh;
      for (const TypedCase* t : cases_of_draft[draft]) {
        if (t->declared && named.count(TypeOf(t->value)) == 0) fresh.insert(TypeOf(t->value));
      }
      if (fresh.empty()) continue;
      named.insert(fresh.begin(), fresh.end());
      for (const TypedCase* t : cases_of_draft[draft]) {
        auto [at, is_new] = known.try_emplace(t->value.name);
        if (is_new) at->second = Verdict((*runner)->Compile(t->value));
        std::printf("%s\t%s\t%s\t%s\t%s\n", row.c_str(), t->value.name.c_str(),
                    std::string(Info(TypeOf(t->value)).name).c_str(), at->second.first.c_str(),
                    at->second.second.c_str());
      }
    }
  }
  return 0;
}

int Main(int argc, char** argv) {
  std::vector<std::string> positional, only;
  std::vector<host::NamedValue> options;
  std::string profile_path;
  bool ours = false, table = false, verbose = false;
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
    } else if (arg == "--ours") {
      ours = true;
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
  if (table) return Table(positional[0], positional[1], options);
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

  CaseTally tally(&profile, /*all=*/ours);
  for (const Case& c : *cases) {
    const auto wanted = [&](const std::string& text) { return absl::StrContains(c.name, text); };
    if (!only.empty() && std::none_of(only.begin(), only.end(), wanted)) continue;
    if (verbose) {
      std::printf("%s ... ", c.name.c_str());
      std::fflush(stdout);
    }
    const Outcome o = (*runner)->Run(c, ours);
    if (verbose) std::printf("%s\n", OutcomeName(o.kind));
    const std::string line = tally.Add(c, o);
    if (!line.empty()) std::printf("%s\n", line.c_str());
  }
  // Lines of the profile can only be judged when all cases have run.
  for (const std::string& line : tally.Finish(/*complete=*/only.empty())) std::printf("%s\n", line.c_str());
  std::printf("%s\n", tally.Summary().c_str());
  return tally.failed() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace backplane::conformance

int main(int argc, char** argv) { return backplane::conformance::Main(argc, argv); }
