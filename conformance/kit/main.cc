// conform: judges a PJRT plugin by its path. docs/conformance.md is its manual.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "conformance/kit/child.h"
#include "conformance/kit/report.h"
#include "conformance/kit/runner.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

constexpr int kGood = 0, kNotConformant = 1, kUsage = 2, kNotOpened = 3, kKitFailed = 4;

constexpr char kHelp[] = R"(conform PLUGIN.so [options]: judges a PJRT plugin.

  --list               the checks, one a line, with what they mean; needs no plugin
  --only REGEX         only checks whose id matches somewhere; may be repeated
  --level NAME         only the checks of this level, which must be met; may be repeated
  --suite NAMES        only these suites, separated by commas
  --profile FILE|NAME  what is expected of this plugin: a file, or the name of one of the kit's own
  --option NAME=VALUE  a create option for every client; may be repeated
  --compile-option NAME=VALUE  an option of the platform's own for every program; may be repeated
  --jobs N             processes at a time; default: the number of cores
  --timeout S          seconds for a check that names no limit of its own; default 20
  --slow F             multiplies every limit, for slow machines
  --json FILE, --junit FILE, --html FILE   reports
  --baseline FILE      an earlier --json: tells what changed
  --verbose            one line for each check
  --quiet              no progress
  --data DIR           the folder with cases, levels and profiles

Exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 the plugin cannot be opened, 4 the kit itself failed.
)";

struct Options {
  bool list = false, verbose = false, quiet = false, help = false;
  std::vector<std::string> only, levels, options, compile_options;
  std::string plugin, suites, profile, json, junit, html, baseline, data;
  int jobs = 0, timeout = 20;
  double slow = 1;
  bool strict = false;           // of a child
  std::vector<std::string> run;  // of a child
};

std::string DefaultData() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
  if (n > 0) {
    // Installed: bin/ and share/backplane/conformance stand side by side.
    std::string folder(self, static_cast<size_t>(n));
    folder = folder.substr(0, folder.rfind('/'));
    const std::string installed = folder + "/../share/backplane/conformance";
    if (access((installed + "/levels").c_str(), R_OK) == 0) return installed;
  }
  return BACKPLANE_SOURCE_DIR "/conformance";
}

bool ParseOptions(const std::vector<std::string>& words, Options* o, std::string* problem) {
  const std::map<std::string, bool*> flags = {{"--list", &o->list},   {"--verbose", &o->verbose}, {"-v", &o->verbose},
                                              {"--quiet", &o->quiet}, {"-q", &o->quiet},          {"--help", &o->help},
                                              {"-h", &o->help},       {"--strict", &o->strict}};
  const std::map<std::string, std::string*> texts = {
      {"--suite", &o->suites}, {"--profile", &o->profile},   {"--json", &o->json}, {"--junit", &o->junit},
      {"--html", &o->html},    {"--baseline", &o->baseline}, {"--data", &o->data}};
  const std::map<std::string, std::vector<std::string>*> lists = {{"--only", &o->only},
                                                                  {"--level", &o->levels},
                                                                  {"--option", &o->options},
                                                                  {"--compile-option", &o->compile_options}};
  std::string jobs = "0", timeout = "20", slow = "1";
  const std::map<std::string, std::string*> numbers = {{"--jobs", &jobs}, {"--timeout", &timeout}, {"--slow", &slow}};
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& w = words[i];
    if (w == "--run") {
      o->run.assign(words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (const auto flag = flags.find(w); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (!absl::StartsWith(w, "-")) {
      if (!o->plugin.empty()) return *problem = absl::StrCat("one plugin at a time: ", o->plugin, " and ", w), false;
      o->plugin = w;
      continue;
    }
    const auto text = texts.find(w), number = numbers.find(w);
    const auto list = lists.find(w);
    if (text == texts.end() && number == numbers.end() && list == lists.end())
      return *problem = absl::StrCat("unknown option ", w), false;
    if (++i >= words.size()) return *problem = absl::StrCat(w, " needs a value"), false;
    if (list != lists.end()) {
      list->second->push_back(words[i]);
    } else {
      *(text != texts.end() ? text : number)->second = words[i];
    }
  }
  if (!absl::SimpleAtoi(jobs, &o->jobs) || o->jobs < 0) return *problem = "--jobs needs a number from 1", false;
  if (!absl::SimpleAtoi(timeout, &o->timeout) || o->timeout < 1)
    return *problem = "--timeout needs a number from 1", false;
  if (!absl::SimpleAtod(slow, &o->slow) || !(o->slow > 0)) return *problem = "--slow needs a number above 0", false;
  if (o->data.empty()) o->data = DefaultData();
  return true;
}

int Say(int status, absl::string_view words) {
  absl::FPrintF(stderr, "conform: %s\n", words);
  return status;
}

bool WriteText(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) Say(kKitFailed, absl::StrCat(path, ": cannot be written"));
  return static_cast<bool>(file);
}

absl::StatusOr<std::vector<host::NamedValue>> ParseNamedValues(const std::vector<std::string>& texts) {
  std::vector<host::NamedValue> values;
  for (const std::string& text : texts) {
    auto value = host::ParseNamedValue(text);
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
  }
  return values;
}

int Child(const std::vector<std::string>& words) {
  Kit::Setup setup;
  int trail_fd = -1;
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &setup.result_fd) || !absl::SimpleAtoi(words[1], &trail_fd))
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
  setup.trail = trail_fd >= 0 ? Trail::Open(trail_fd) : nullptr;
  return RunChild(std::move(setup), o.run);
}

// Every check there is, operations included.
absl::StatusOr<std::vector<Job>> AllJobs(const std::string& data) {
  std::vector<Job> jobs;
  for (const Check* check : AllChecks())
    jobs.push_back({check->id, check->meaning, check->limit_s, check->advice, false});
  auto cases = OperationCases(data);
  if (!cases.ok()) return cases.status();
  for (const OperationCase& c : *cases) jobs.push_back({c.id, c.meaning, 60, false, true});
  return jobs;
}

int Main(std::vector<std::string> words) {
  if (!words.empty() && words[0] == "--child") return Child({words.begin() + 1, words.end()});
  Options o;
  std::string problem;
  if (!ParseOptions(words, &o, &problem)) return Say(kUsage, absl::StrCat(problem, "; --help tells the options"));
  if (o.help) return std::fputs(kHelp, stdout), kGood;
  auto all = AllJobs(o.data);
  if (!all.ok()) return Say(kKitFailed, all.status().message());
  if (o.list) {
    for (const Job& job : *all) absl::PrintF("%-46s %s%s\n", job.id, job.meaning, job.advice ? " (advice)" : "");
    return kGood;
  }
  if (o.plugin.empty()) return Say(kUsage, "which plugin? --help tells the options");
  if (access(o.plugin.c_str(), R_OK) != 0) return Say(kNotOpened, absl::StrCat(o.plugin, ": cannot be read"));
  if (!absl::StrContains(o.plugin, '/')) o.plugin = "./" + o.plugin;
  std::vector<std::string> ids;
  for (const Job& job : *all) ids.push_back(job.id);

  // What is expected.
  Profile profile;
  if (!o.profile.empty()) {
    const std::string path = absl::StrContains(o.profile, '/') || absl::EndsWith(o.profile, ".txt")
                                 ? o.profile
                                 : absl::StrCat(o.data, "/profiles/", o.profile, ".txt");
    const auto text = ReadText(path);
    if (!text.ok()) return Say(kUsage, text.status().message());
    auto parsed = ParseProfile(*text, path.substr(path.rfind('/') + 1));
    if (!parsed.ok()) return Say(kUsage, parsed.status().message());
    profile = *std::move(parsed);
    o.options.insert(o.options.begin(), profile.options.begin(), profile.options.end());
    o.compile_options.insert(o.compile_options.begin(), profile.compile_options.begin(), profile.compile_options.end());
  }
  for (const auto& list : {o.options, o.compile_options}) {
    if (const auto values = ParseNamedValues(list); !values.ok()) return Say(kUsage, values.status().message());
  }
  std::vector<Level> levels;
  for (const std::string& name : NamesIn(o.data + "/levels", ".txt")) {
    auto text = ReadText(absl::StrCat(o.data, "/levels/", name, ".txt"));
    auto level = text.ok() ? ParseLevel(*text, name) : text.status();
    if (!level.ok()) return Say(kKitFailed, level.status().message());
    levels.push_back(*std::move(level));
  }

  // What is run.
  std::vector<Job> jobs;
  std::vector<std::regex> patterns;
  for (const std::string& only : o.only) {
    try {
      patterns.emplace_back(only);
    } catch (const std::regex_error& e) {
      return Say(kUsage, absl::StrCat("--only ", only, ": ", e.what()));
    }
  }
  for (const std::string& name : o.levels) {
    if (std::none_of(levels.begin(), levels.end(), [&](const Level& l) { return l.name == name; }))
      return Say(kUsage, absl::StrCat("no level ", name));
  }
  for (const Job& job : *all) {
    bool in_level = o.levels.empty();
    for (const Level& level : levels) {
      if (std::find(o.levels.begin(), o.levels.end(), level.name) == o.levels.end()) continue;
      for (const std::string& pattern : level.patterns) in_level = in_level || Meets(pattern, job.id);
    }
    const std::string suite = job.id.substr(0, job.id.find('.'));
    const bool in_suite =
        o.suites.empty() || absl::StrContains(absl::StrCat(",", o.suites, ","), absl::StrCat(",", suite, ","));
    const bool named = patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::regex& p) {
                         return std::regex_search(job.id, p);
                       });
    if (in_level && in_suite && named) jobs.push_back(job);
  }
  if (jobs.empty()) return Say(kUsage, "no check is chosen");

  RunnerOptions runner;
  runner.program = "/proc/self/exe";
  runner.child_arguments = {o.plugin, "--data", o.data};
  const auto pass_on = [&](const char* name, const std::vector<std::string>& values) {
    for (const std::string& value : values) runner.child_arguments.insert(runner.child_arguments.end(), {name, value});
  };
  pass_on("--option", o.options);
  pass_on("--compile-option", o.compile_options);
  if (profile.strict) runner.child_arguments.push_back("--strict");
  runner.jobs = o.jobs > 0 ? o.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  runner.limit_s = o.timeout;
  runner.limit_factor = o.slow;

  // First: can it be opened at all?
  const bool terminal = isatty(1) != 0 && !o.quiet;
  Report report;
  report.plugin = o.plugin.substr(o.plugin.rfind('/') + 1);
  report.profile = profile.name;
  report.strict = profile.strict;
  RunnerReport facts = RunJobs(runner, {{kFactsId, "", 60, false, false}}, [](const CheckOutcome&, size_t, size_t) {});
  if (facts.outcomes[0].result == Result::kPass) {
    report.facts = facts.outcomes[0].detail;
  } else {
    const std::string& why = facts.outcomes[0].detail;
    if (absl::StartsWith(why, "cannot be opened") || absl::StartsWith(why, "does not export"))
      return Say(kNotOpened, absl::StrCat(o.plugin, ": ", why));
    Say(kGood, absl::StrCat(o.plugin, ": it cannot say what it is: ", why));
  }
  RunnerReport run = RunJobs(runner, jobs, [&](const CheckOutcome& outcome, size_t done, size_t count) {
    if (!terminal) return;
    absl::PrintF("\r\x1b[K%d of %d  %s", done, count, outcome.id);
    if (done == count) absl::PrintF("\r\x1b[K");
    std::fflush(stdout);
  });
  report.seconds = run.seconds + facts.seconds;
  report.outcomes = std::move(run.outcomes);

  // What the plugin printed while other things were tried is the outcome of a check of its own.
  for (CheckOutcome& outcome : report.outcomes) {
    if (outcome.id != "lifecycle.prints_nothing" || outcome.result != Result::kPass) continue;
    run.printed.insert(run.printed.end(), facts.printed.begin(), facts.printed.end());
    if (run.printed.empty()) continue;
    outcome.result = Result::kFail;
    outcome.detail =
        absl::StrCat("printed to standard output in ", run.printed.size(), " checks, first in ", run.printed[0]);
  }
  if (const absl::Status s = ApplyProfile(profile, ids, &report.outcomes); !s.ok()) return Say(kUsage, s.message());
  for (const Level& level : levels) {
    auto judged = JudgeLevel(level, ids, report.outcomes);
    if (!judged.ok()) return Say(kKitFailed, judged.status().message());
    report.levels.push_back(*std::move(judged));
  }
  // A promise is kept or broken by a run that held all of its checks.
  report.demanded = o.levels;
  for (const LevelResult& level : report.levels) {
    const bool claimed = std::find(profile.claims.begin(), profile.claims.end(), level.name) != profile.claims.end();
    if (claimed && level.not_run == 0) report.demanded.push_back(level.name);
  }
  for (const std::string& name : profile.claims) {
    if (std::none_of(levels.begin(), levels.end(), [&](const Level& l) { return l.name == name; }))
      return Say(kUsage, absl::StrCat(profile.name, ": no level ", name));
  }

  Report before;
  if (!o.baseline.empty()) {
    const auto text = ReadText(o.baseline);
    if (!text.ok()) return Say(kUsage, text.status().message());
    auto read = ReadReport(*text);
    if (!read.ok()) return Say(kUsage, absl::StrCat(o.baseline, ": ", read.status().message()));
    before = *std::move(read);
  }
  std::fputs(ConsoleText(report, terminal, o.verbose).c_str(), stdout);
  if (!o.baseline.empty()) {
    const std::vector<std::string> changes = Differences(before, report);
    absl::PrintF("%d changes since %s\n", changes.size(), o.baseline);
    for (const std::string& line : changes) absl::PrintF("  %s\n", line);
  }
  std::fflush(stdout);
  const bool written =
      WriteText(o.json, JsonText(report)) & WriteText(o.junit, JunitText(report)) &
      WriteText(o.html, o.html.empty() ? "" : HtmlText(report, o.baseline.empty() ? nullptr : &before));
  if (!written) return kKitFailed;
  return Good(report) ? kGood : kNotConformant;
}

}  // namespace
}  // namespace backplane::conformance

int main(int argc, char** argv) { return backplane::conformance::Main({argv + 1, argv + argc}); }
