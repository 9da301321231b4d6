#include "conformance/kit/judge.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "conformance/kit/child.h"
#include "conformance/kit/report.h"
#include "conformance/kit/runner.h"
#include "conformance/suites/suites.h"
#include "sdk/host/discovery.h"
#include "sdk/host/json.h"
#include "sdk/host/probe.h"
#include "sdk/host/status.h"

namespace backplane::conformance {
namespace {

// Errors that end the run, with the exit status.
absl::Status WrongUsage(absl::string_view words) { return absl::InvalidArgumentError(words); }
absl::Status NotOpened(absl::string_view words) { return absl::FailedPreconditionError(words); }
absl::Status KitFailed(absl::string_view words) { return absl::InternalError(words); }
int StatusOf(const absl::Status& error) {
  return absl::IsInvalidArgument(error) ? kWrongUsage : absl::IsFailedPrecondition(error) ? kNotOpened : kKitFailed;
}

absl::StatusOr<std::vector<host::NamedValue>> ParseNamedValues(const std::vector<std::string>& texts) {
  std::vector<host::NamedValue> values;
  for (const std::string& text : texts) {
    BP_ASSIGN_OR_RETURN(host::NamedValue value, host::ParseNamedValue(text));
    values.push_back(std::move(value));
  }
  return values;
}

// Parses an option as ParseNamedValue does.
std::string OptionText(const host::NamedValue& option) {
  const bool text = std::holds_alternative<std::string>(option.value);
  return absl::StrCat(option.name, "=", text ? "\"" : "", option.FormatValue(), text ? "\"" : "");
}

// Returns all checks, including the operations.
// Those of several processes are left out unless it is said how many.
absl::StatusOr<std::vector<Job>> CollectJobs(const std::string& data, bool several_processes) {
  std::vector<Job> jobs;
  for (const Check* check : CollectChecks())
    jobs.push_back({check->id, check->meaning, check->limit_s, check->advice, false});
  if (several_processes) {
    for (const Check& check : ProcessesSuite())
      jobs.push_back({check.id, check.meaning, check.limit_s, check.advice, false});
  }
  BP_ASSIGN_OR_RETURN(const std::vector<OperationCase> cases, CollectOperationCases(data));
  for (const OperationCase& c : cases) jobs.push_back({c.id, c.meaning, 60, false, true});
  return jobs;
}

class Run {
 public:
  Run(Options options, std::string name) : o_(std::move(options)), name_(std::move(name)) {
    for (const std::string* file : {&o_.json, &o_.junit, &o_.html}) to_stdout_ += *file == "-";
    out_ = to_stdout_ > 0 ? stderr : stdout;
    const char *no_color = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
    terminal_ = isatty(fileno(out_)) == 1;
    color_ = o_.color == "always" || (o_.color == "auto" && terminal_ && (no_color == nullptr || *no_color == '\0') &&
                                      (term == nullptr || absl::string_view(term) != "dumb"));
  }

  int Main() {
    auto all = CollectJobs(o_.data, o_.processes > 0);
    if (o_.processes > 0 && o_.suites.empty() && o_.only.empty() && o_.levels.empty()) o_.suites = "processes";
    if (!all.ok()) return PrintAndReturn(kKitFailed, all.status().message());
    if (o_.list) {
      for (const Job& job : *all) absl::PrintF("%-46s %s%s\n", job.id, job.meaning, job.advice ? " (advice)" : "");
      return kGood;
    }
    if (const absl::Status error = TestPlugin(*all); !error.ok())
      return PrintAndReturn(StatusOf(error), error.message());
    return IsConformant(report_) ? kGood : kNotConformant;
  }

 private:
  int PrintAndReturn(int status, absl::string_view words) {
    absl::FPrintF(stderr, "%s: %s\n", name_, words);
    return status;
  }

  absl::Status TestPlugin(const std::vector<Job>& all) {
    if (to_stdout_ > 1) return WrongUsage("one report at most goes to standard output");
    BP_RETURN_IF_ERROR(FindPlugin());
    for (const Job& job : all) ids_.push_back(job.id);
    BP_RETURN_IF_ERROR(ReadExpectations());
    BP_ASSIGN_OR_RETURN(const std::vector<Job> jobs, Choose(all));
    BP_RETURN_IF_ERROR(RunChecks(jobs));
    BP_RETURN_IF_ERROR(Evaluate());
    return WriteReports();
  }

  absl::Status FindPlugin() {
    if (o_.plugin.empty()) return WrongUsage("which plugin? --help tells the options");
    host::DiscoveryOptions where;
    where.manifest_folders = host::FindManifestsOfThisProgram();
    const auto found = host::FindPlugin(o_.plugin, where);
    if (!found.ok()) return NotOpened(found.status().message());
    library_ = found->library;
    if (absl::StrContains(library_, '/') && access(library_.c_str(), R_OK) != 0)
      return NotOpened(absl::StrCat(library_, ": cannot be read"));
    std::vector<std::string> options;
    for (const host::NamedValue& option : found->create_options) options.push_back(OptionText(option));
    manifest_options_ = std::move(options);
    return absl::OkStatus();
  }

  // Reads profile, options, levels and baseline.
  absl::Status ReadExpectations() {
    if (!o_.profile.empty()) {
      const bool file = absl::StrContains(o_.profile, '/') || absl::EndsWith(o_.profile, ".txt");
      const std::string path = file ? o_.profile : absl::StrCat(o_.data, "/profiles/", o_.profile, ".txt");
      const auto text = ReadText(path);
      if (!text.ok()) return WrongUsage(text.status().message());
      auto parsed = ParseProfile(*text, path.substr(path.rfind('/') + 1));
      if (!parsed.ok()) return WrongUsage(parsed.status().message());
      profile_ = *std::move(parsed);
    }
    // Later ones take precedence: those of the manifest, the profile, the command line.
    std::vector<std::string> options = manifest_options_;
    options.insert(options.end(), profile_.options.begin(), profile_.options.end());
    options.insert(options.end(), o_.options.begin(), o_.options.end());
    o_.options = std::move(options);
    o_.compile_options.insert(o_.compile_options.begin(), profile_.compile_options.begin(),
                              profile_.compile_options.end());
    for (const auto& list : {o_.options, o_.compile_options}) {
      if (const auto values = ParseNamedValues(list); !values.ok()) return WrongUsage(values.status().message());
    }
    for (const std::string& name : ListNames(o_.data + "/levels", ".txt")) {
      auto text = ReadText(absl::StrCat(o_.data, "/levels/", name, ".txt"));
      auto level = text.ok() ? ParseLevel(*text, name) : text.status();
      if (!level.ok()) return KitFailed(level.status().message());
      levels_.push_back(*std::move(level));
    }
    const auto known = [&](const std::string& name) {
      return std::any_of(levels_.begin(), levels_.end(), [&](const Level& l) { return l.name == name; });
    };
    for (const std::string& name : o_.levels) {
      if (!known(name)) return WrongUsage(absl::StrCat("no level ", name));
    }
    for (const std::string& name : profile_.claims) {
      if (!known(name)) return WrongUsage(absl::StrCat(profile_.name, ": no level ", name));
    }
    // Reports a baseline that cannot be read before running the checks.
    if (!o_.baseline.empty()) {
      const auto text = ReadText(o_.baseline);
      if (!text.ok()) return WrongUsage(text.status().message());
      auto read = ReadReport(*text);
      if (!read.ok()) return WrongUsage(absl::StrCat(o_.baseline, ": ", read.status().message()));
      before_ = *std::move(read);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Job>> Choose(const std::vector<Job>& all) {
    std::vector<std::regex> patterns;
    for (const std::string& only : o_.only) {
      try {
        patterns.emplace_back(only);
      } catch (const std::regex_error& e) {
        return WrongUsage(absl::StrCat("--only ", only, ": ", e.what()));
      }
    }
    std::vector<Job> jobs;
    for (const Job& job : all) {
      bool in_level = o_.levels.empty();
      for (const Level& level : levels_) {
        if (!absl::c_linear_search(o_.levels, level.name)) continue;
        for (const std::string& pattern : level.patterns) in_level = in_level || MatchesPattern(pattern, job.id);
      }
      const std::string suite = job.id.substr(0, job.id.find('.'));
      const bool in_suite =
          o_.suites.empty() || absl::StrContains(absl::StrCat(",", o_.suites, ","), absl::StrCat(",", suite, ","));
      const bool named = patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::regex& p) {
                           return std::regex_search(job.id, p);
                         });
      if (in_level && in_suite && named) jobs.push_back(job);
    }
    if (jobs.empty()) return WrongUsage("no check is chosen");
    return jobs;
  }

  absl::Status RunChecks(const std::vector<Job>& jobs) {
    RunnerOptions runner;
    runner.program = "/proc/self/exe";
    runner.child_arguments = {library_, "--data", o_.data};
    const auto pass_on = [&](const char* name, const std::vector<std::string>& values) {
      for (const std::string& value : values)
        runner.child_arguments.insert(runner.child_arguments.end(), {name, value});
    };
    pass_on("--option", o_.options);
    pass_on("--compile-option", o_.compile_options);
    if (profile_.strict) runner.child_arguments.push_back("--strict");
    if (o_.processes > 0) runner.child_arguments.push_back(absl::StrCat("--processes=", o_.processes));
    runner.jobs =
        o_.jobs > 0 ? static_cast<int>(o_.jobs) : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    runner.limit_s = static_cast<int>(o_.timeout);
    runner.limit_factor = o_.slow;

    // First tests whether the plugin can be opened.
    report_.plugin = library_.substr(library_.rfind('/') + 1);
    report_.profile = profile_.name;
    report_.strict = profile_.strict;
    RunnerReport facts =
        RunJobs(runner, {{kFactsId, "", 60, false, false}}, [](const CheckOutcome&, size_t, size_t) {});
    const std::string& told = facts.outcomes[0].detail;
    if (facts.outcomes[0].result == Result::kPass) {
      if (auto parsed = host::Json::Parse(told); parsed.ok()) report_.facts = *std::move(parsed);
    } else {
      // Almost nothing can be tested without a client, and a plugin that hangs would hang in every check. Checks that
      // the user names run nevertheless.
      const bool chosen = !o_.only.empty() || !o_.suites.empty();
      const bool no_client =
          absl::StrContains(told, "PJRT_Client_Create") || absl::StrContains(told, "PJRT_Plugin_Initialize");
      if (absl::StartsWith(told, "cannot be opened") || absl::StartsWith(told, "does not export"))
        return NotOpened(absl::StrCat(library_, ": ", told));
      if (no_client && !chosen) {
        return NotOpened(absl::StrCat(library_, ": no client: ", told.substr(0, told.find('\n')),
                                      absl::StartsWith(told, "hung") ? host::ExplainHang(library_) : "",
                                      "; --suite abi,lifecycle runs what can be judged without one"));
      }
      PrintAndReturn(kGood, absl::StrCat(library_, ": it cannot say what it is: ", told));
    }
    const bool progress = terminal_ && !o_.quiet;
    auto drawn = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    RunnerReport run = RunJobs(runner, jobs, [&](const CheckOutcome& outcome, size_t done, size_t count) {
      const auto now = std::chrono::steady_clock::now();
      if (!progress || (done < count && now - drawn < std::chrono::milliseconds(100))) return;
      drawn = now;
      ShowProgress(outcome.id, done, count);
    });
    report_.seconds = run.seconds + facts.seconds;
    report_.outcomes = std::move(run.outcomes);

    // Output that the plugin printed during other checks is the outcome of a separate check.
    for (CheckOutcome& outcome : report_.outcomes) {
      if (outcome.id != "lifecycle.prints_nothing" || outcome.result != Result::kPass) continue;
      run.printed.insert(run.printed.end(), facts.printed.begin(), facts.printed.end());
      if (run.printed.empty()) continue;
      outcome.result = Result::kFail;
      outcome.detail =
          absl::StrCat("printed to standard output in ", run.printed.size(), " checks, first in ", run.printed[0]);
    }
    return absl::OkStatus();
  }

  // Shows progress on one line that the next one overwrites, and that is erased at the end.
  void ShowProgress(const std::string& id, size_t done, size_t count) {
    constexpr size_t kWidth = 24;
    const size_t filled = kWidth * done / count;
    absl::FPrintF(out_, "\r\x1b[K");
    if (done < count)
      absl::FPrintF(out_, "[%s%s] %d/%d %s", std::string(filled, '#'), std::string(kWidth - filled, ' '), done, count,
                    id.substr(0, 48));
    std::fflush(out_);
  }

  absl::Status Evaluate() {
    if (const absl::Status s = ApplyProfile(profile_, ids_, &report_.outcomes); !s.ok()) return WrongUsage(s.message());
    for (const Level& level : levels_) {
      auto judged = ComputeLevelResult(level, ids_, report_.outcomes);
      if (!judged.ok()) return KitFailed(judged.status().message());
      report_.levels.push_back(*std::move(judged));
    }
    // A claimed level is judged only if all of its checks ran.
    report_.demanded = o_.levels;
    for (const LevelResult& level : report_.levels) {
      if (absl::c_linear_search(profile_.claims, level.name) && level.not_run == 0)
        report_.demanded.push_back(level.name);
    }
    return absl::OkStatus();
  }

  absl::Status WriteReports() {
    std::fputs(PrintConsole(report_, color_, o_.verbose).c_str(), out_);
    if (!o_.baseline.empty()) {
      const std::vector<std::string> changes = FindDifferences(before_, report_);
      absl::FPrintF(out_, "%d changes since %s\n", changes.size(), o_.baseline);
      for (const std::string& line : changes) absl::FPrintF(out_, "  %s\n", line);
    }
    std::fflush(out_);
    // A report that cannot be written does not prevent the others.
    absl::Status written;
    if (!o_.json.empty()) written.Update(Write(o_.json, FormatJson(report_)));
    if (!o_.junit.empty()) written.Update(Write(o_.junit, PrintJunit(report_)));
    if (!o_.html.empty()) written.Update(Write(o_.html, PrintHtml(report_, o_.baseline.empty() ? nullptr : &before_)));
    return written;
  }

  static absl::Status Write(const std::string& path, const std::string& text) {
    bool good;
    if (path == "-") {
      good = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    } else {
      std::ofstream file(path, std::ios::binary);
      file << text;
      file.close();
      good = static_cast<bool>(file);
    }
    return good ? absl::OkStatus() : KitFailed(absl::StrCat(path, ": cannot be written"));
  }

  Options o_;
  const std::string name_;
  std::string library_;
  std::vector<std::string> manifest_options_, ids_;
  Profile profile_;
  std::vector<Level> levels_;
  Report report_, before_;
  FILE* out_;
  int to_stdout_ = 0;
  bool terminal_, color_;
};

}  // namespace

int ChildMain(const std::vector<std::string>& words) {
  Kit::Setup setup;
  int last_call_fd = -1;
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &setup.result_fd) || !absl::SimpleAtoi(words[1], &last_call_fd))
    return kKitFailed;
  Options o;
  std::string problem;
  if (!ParseOptions({words.begin() + 2, words.end()}, &o, &problem)) return kKitFailed;
  const auto options = ParseNamedValues(o.options), compile_options = ParseNamedValues(o.compile_options);
  if (!options.ok() || !compile_options.ok()) return kKitFailed;
  setup.plugin = o.plugin;
  setup.options = *options;
  setup.compile_options = *compile_options;
  setup.data = o.data;
  setup.strict = o.strict;
  setup.processes = static_cast<int>(o.processes);
  setup.last_call = last_call_fd >= 0 ? LastCall::Open(last_call_fd) : nullptr;
  return RunChild(std::move(setup), o.run);
}

int Judge(Options options, const std::string& name) {
  std::string problem;
  if (!CheckOptions(&options, &problem))
    return absl::FPrintF(stderr, "%s: %s\n", name, problem), static_cast<int>(kWrongUsage);
  return Run(std::move(options), name).Main();
}

int ConformMain(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == kChildFlag) return ChildMain({words.begin() + 1, words.end()});
  Options o;
  std::string problem;
  if (!ParseOptions(words, &o, &problem)) {
    absl::FPrintF(stderr, "conform: %s; --help tells the options\n", problem);
    return kWrongUsage;
  }
  if (o.help) return std::fputs(PrintHelp("conform").c_str(), stdout), static_cast<int>(kGood);
  return Judge(std::move(o), "conform");
}

}  // namespace backplane::conformance
