// Makes random sequences of valid and invalid calls on a plugin under the layer `validate`, and checks the answers of
// both against a model.
//
//   call_sequences PLUGIN [--count N] [--first K] [--seconds S] [--option NAME=VALUE]... [--save FOLDER] [--shrink 0]
//                  [--findings N] [--expect-findings]
//   call_sequences PLUGIN --show K [--option NAME=VALUE]...       runs sequence K and prints its calls
//
// Runs --count sequences from number K on (default 1000 from 0) in child processes; a sequence is determined by its
// number. A finding is a crash, a hang, an exception, a wrong answer, or a misuse that the layer reports incorrectly.
// It is shrunk by removing steps, and its calls are printed and saved. The exit status is 1 if there is a finding, or
// with --expect-findings if there is none. --option applies to every client.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/sequences/sequence.h"

namespace backplane::sequences {
namespace {

[[noreturn]] void Usage(absl::string_view why) {
  std::fprintf(stderr, "call_sequences: %s\n", std::string(why).c_str());
  std::exit(2);
}

// Runs one sequence in a child process. Returns whether it is a finding.
bool Fails(const Settings& settings, uint64_t number, supervisor::Finding* finding) {
  supervisor::Job job;
  job.first = number;
  job.count = 1;
  job.one = [&](uint64_t i, supervisor::Shared& shared) { return RunSequence(settings, i, shared); };
  bool fails = false;
  job.found = [&](const supervisor::Finding& f) {
    fails = true;
    *finding = f;
  };
  supervisor::RunJob(job);
  return fails;
}

// Removes steps, several at once and then one by one, as long as it is still a finding.
supervisor::Finding Shrink(Settings settings, supervisor::Finding finding) {
  const uint64_t number = finding.index;
  const size_t steps = NumSteps(number);
  for (size_t size = steps / 2 + 1; size > 0; size /= 2) {
    for (size_t at = 0; at < steps; at += size) {
      Settings fewer = settings;
      for (size_t i = at; i < at + size && i < steps; ++i) fewer.left_out.push_back(i);
      std::sort(fewer.left_out.begin(), fewer.left_out.end());
      fewer.left_out.erase(std::unique(fewer.left_out.begin(), fewer.left_out.end()), fewer.left_out.end());
      if (fewer.left_out.size() == settings.left_out.size()) continue;
      if (supervisor::Finding smaller; Fails(fewer, number, &smaller)) {
        settings = fewer;
        finding = smaller;
      }
    }
  }
  return finding;
}

int Main(int argc, char** argv) {
  if (argc < 2) Usage("which plugin?");
  Settings settings;
  settings.plugin = argv[1];
  supervisor::Job job;
  job.count = 1000;
  std::string save;
  bool shrink = true, expect_findings = false, show = false;
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--expect-findings") {
      expect_findings = true;
      continue;
    }
    if (++i == argc) Usage(absl::StrCat(name, " wants a value"));
    const std::string value = argv[i];
    bool right = true;
    if (name == "--count") {
      right = absl::SimpleAtoi(value, &job.count);
    } else if (name == "--first") {
      right = absl::SimpleAtoi(value, &job.first);
    } else if (name == "--seconds") {
      right = absl::SimpleAtod(value, &job.seconds);
    } else if (name == "--findings") {
      right = absl::SimpleAtoi(value, &job.max_findings);
    } else if (name == "--show") {
      right = absl::SimpleAtoi(value, &job.first);
      show = true;
    } else if (name == "--shrink") {
      shrink = value != "0";
    } else if (name == "--save") {
      save = value;
    } else if (name == "--option") {
      const std::vector<std::string> parts = absl::StrSplit(value, absl::MaxSplits('=', 1));
      right = parts.size() == 2;
      if (right) settings.create_options.emplace_back(parts[0], parts[1]);
    } else {
      Usage(absl::StrCat("no option '", name, "'"));
    }
    if (!right) Usage(absl::StrCat(name, ": '", value, "' is no value for it"));
  }
  if (show) {
    static supervisor::Shared shared;
    const std::string wrong = RunSequence(settings, job.first, shared);
    std::fwrite(shared.log, 1, std::min(shared.log_size.load(), supervisor::Shared::kLogBytes), stdout);
    std::printf("%s\n", wrong.empty() ? "nothing was wrong" : wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  job.one = [&](uint64_t number, supervisor::Shared& shared) { return RunSequence(settings, number, shared); };
  job.found = [&](const supervisor::Finding& first) {
    const supervisor::Finding finding = shrink ? Shrink(settings, first) : first;
    const std::string text = absl::StrCat("sequence ", finding.index, ": ", finding.how, "\n", finding.log, "\n");
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!save.empty()) std::ofstream(absl::StrCat(save, "/sequence-", finding.index, ".txt")) << text;
  };
  const supervisor::Totals totals = supervisor::RunJob(job);
  std::printf("%llu sequences in %.1f s (%.1f a second), %d findings\n", static_cast<unsigned long long>(totals.done),
              totals.seconds, static_cast<double>(totals.done) / std::max(totals.seconds, 1e-3), totals.findings);
  return (totals.findings == 0) == expect_findings ? 1 : 0;
}

}  // namespace
}  // namespace backplane::sequences

int main(int argc, char** argv) { return backplane::sequences::Main(argc, argv); }
