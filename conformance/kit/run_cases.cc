// run_cases PLUGIN FOLDER [--only TEXT] [--option NAME=VALUE] [--profile FILE] [--ours] [--table] [--verbose]
//
// Runs the case files of a folder on a plugin. Prints cases that do not pass and a last line `N passed, N failed, N
// unsupported`. Exits with 0 if nothing failed.
//
//   --only TEXT    runs the cases whose name contains the text; may be repeated
//   --option N=V   an option for the client, such as cpu_device_count=8; may be repeated
//   --same N=V,W.. runs a client for each of these values of an option: each case must have the same outcome on all,
//   and
//                  bitwise equal results, unless its results differ between two runs on the first client
//   --profile FILE cases that are known not to pass, with a reason: `NAME  REASON` on each line; NAME may end in `*`. A
//                  line is a failure if a case of it passes or if it matches no case
//   --ours         requires what our plugins guarantee: a rejection names the broken rule, and nothing is unsupported
//   --table        only compiles, for every element type: prints a line
//                  `ROW <tab> CASE <tab> TYPE <tab> compiled|interpreted|refused|unimplemented <tab> WHY`
//                  for each form of each row of the list of operations. TYPE is that of the variable T, or of the first
//                  argument or result. WHY contains the lines `interpreted: OPCODE SHAPE: REASON` of the compile log,
//                  separated by ` | `
//   --verbose      prints every case with its outcome
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
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

ElementType GetType(const Case& c) {
  for (const auto& [name, value] : c.bindings) {
    const std::optional<ElementType> type = ElementTypeFromName(value);
    if (name == "T" && type) return *type;
  }
  return !c.inputs[0].empty()    ? c.inputs[0][0].type
         : !c.outputs[0].empty() ? c.outputs[0][0].value.type
                                 : ElementType::kPred;
}

// The outcome of compiling one program, and why it is not better.
std::pair<std::string, std::string> Verdict(const Outcome& o) {
  if (o.kind == Outcome::kUnsupported) return {"unimplemented", OneLine(o.message)};
  if (o.kind == Outcome::kFail) return {"refused", OneLine(o.message)};
  std::vector<std::string> lines;
  for (const std::string& line : o.compile_log) {
    if (absl::StrContains(line, "interpreted: ")) lines.push_back(OneLine(line));
  }
  return {lines.empty() ? "compiled" : "interpreted", absl::StrJoin(lines, " | ")};
}

// Tests each row by its first cases, and by further ones that use other element types.
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
        if (t->declared && named.count(GetType(t->value)) == 0) fresh.insert(GetType(t->value));
      }
      if (fresh.empty()) continue;
      named.insert(fresh.begin(), fresh.end());
      for (const TypedCase* t : cases_of_draft[draft]) {
        auto [at, is_new] = known.try_emplace(t->value.name);
        if (is_new) at->second = Verdict((*runner)->Compile(t->value));
        std::printf("%s\t%s\t%s\t%s\t%s\n", row.c_str(), t->value.name.c_str(),
                    std::string(Info(GetType(t->value)).name).c_str(), at->second.first.c_str(),
                    at->second.second.c_str());
      }
    }
  }
  return 0;
}

// Describes where two outcomes of a case differ in any bit of a result; empty if they do not.
std::string Difference(const Outcome& a, const Outcome& b) {
  if (a.kind != b.kind) return absl::StrCat("is ", OutcomeName(a.kind), " and ", OutcomeName(b.kind), ": ", b.message);
  if (a.outputs.size() != b.outputs.size()) return "runs in one and not in the other";
  for (size_t d = 0; d < a.outputs.size(); ++d) {
    if (a.outputs[d].size() != b.outputs[d].size()) return "the numbers of results differ";
    for (size_t i = 0; i < a.outputs[d].size(); ++i) {
      const Array &x = a.outputs[d][i], &y = b.outputs[d][i];
      const std::string where = absl::StrCat("device ", d, ", result ", i);
      if (x.type != y.type || x.dims != y.dims) return absl::StrCat(where, ": another type or shape");
      if (x.data == y.data) continue;
      const size_t at = static_cast<size_t>(
          std::mismatch(x.data.begin(), x.data.end(), y.data.begin(), y.data.end()).first - x.data.begin());
      return absl::StrCat(where, ": byte ", at, " of ", x.data.size(), " differs");
    }
  }
  return "";
}

// `NAME=V,W`: each value gives the options of a separate client. One client if the option is missing.
absl::StatusOr<std::vector<std::vector<host::NamedValue>>> Variants(const std::string& same,
                                                                    const std::vector<host::NamedValue>& options) {
  if (same.empty()) return std::vector<std::vector<host::NamedValue>>{options};
  const std::pair<std::string, std::string> parts = absl::StrSplit(same, absl::MaxSplits('=', 1));
  std::vector<std::vector<host::NamedValue>> out;
  for (const std::string& value : std::vector<std::string>(absl::StrSplit(parts.second, ','))) {
    absl::StatusOr<host::NamedValue> option = host::ParseNamedValue(absl::StrCat(parts.first, "=", value));
    if (!option.ok()) return option.status();
    out.push_back(options);
    out.back().push_back(*std::move(option));
  }
  return out;
}

int Main(int argc, char** argv) {
  std::vector<std::string> positional, only;
  std::vector<host::NamedValue> options;
  std::string profile_path, same;
  bool ours = false, table = false, verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool takes_value = arg == "--only" || arg == "--option" || arg == "--profile" || arg == "--same";
    if (takes_value && i + 1 == argc) return Fail(absl::StrCat(arg, " needs a value"));
    if (arg == "--only") {
      only.push_back(argv[++i]);
    } else if (arg == "--profile") {
      profile_path = argv[++i];
    } else if (arg == "--same") {
      same = argv[++i];
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
  const absl::StatusOr<std::vector<std::vector<host::NamedValue>>> variants = Variants(same, options);
  if (!variants.ok()) return Fail(variants.status().message());
  std::vector<std::unique_ptr<CaseRunner>> runners;
  for (const std::vector<host::NamedValue>& variant : *variants) {
    absl::StatusOr<std::unique_ptr<CaseRunner>> runner = CaseRunner::Create(positional[0], variant);
    if (!runner.ok()) return Fail(runner.status().message());
    runners.push_back(*std::move(runner));
  }

  int differ = 0, drawn = 0;
  int64_t compared = 0;
  CaseTally tally(&profile, /*all=*/ours);
  for (const Case& c : *cases) {
    const auto wanted = [&](const std::string& text) { return absl::StrContains(c.name, text); };
    if (!only.empty() && std::none_of(only.begin(), only.end(), wanted)) continue;
    if (verbose) {
      std::printf("%s ... ", c.name.c_str());
      std::fflush(stdout);
    }
    const Outcome o = runners[0]->Run(c, ours);
    std::string differences;
    for (size_t r = 1; r < runners.size(); ++r) {
      const std::string difference = Difference(o, runners[r]->Run(c, ours));
      for (const std::vector<Array>& arrays : o.outputs) compared += static_cast<int64_t>(arrays.size());
      if (difference.empty()) continue;
      absl::StrAppend(&differences, c.name, ": clients 1 and ", r + 1, " of --same ", same, ": ", difference, "\n");
    }
    if (!differences.empty() && !Difference(o, runners[0]->Run(c, ours)).empty()) {
      ++drawn;  // not reproducible on the first client either: random numbers without a key
    } else if (!differences.empty()) {
      ++differ;
      std::printf("%s", differences.c_str());
    }
    if (verbose) std::printf("%s\n", OutcomeName(o.kind));
    const std::string line = tally.Add(c, o);
    if (!line.empty()) std::printf("%s\n", line.c_str());
  }
  // Lines of the profile can be judged only after all cases have run.
  for (const std::string& line : tally.Finish(/*complete=*/only.empty())) std::printf("%s\n", line.c_str());
  if (runners.size() > 1) {
    std::printf("%lld results compared bit by bit, %d cases differ, %d give something new each time\n",
                static_cast<long long>(compared), differ, drawn);
  }
  std::printf("%s\n", tally.Summary().c_str());
  return tally.failed() > 0 || differ > 0 ? 1 : 0;
}

}  // namespace
}  // namespace backplane::conformance

int main(int argc, char** argv) { return backplane::conformance::Main(argc, argv); }
