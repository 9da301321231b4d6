#include "tests/supervisor/supervisor.h"

#include <unistd.h>

#include <csignal>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Supervisor, EachBadEndIsOneFindingAndTheRestIsDone) {
  std::vector<uint64_t> indexes;
  std::vector<std::string> hows, logs;
  Job job;
  job.first = 10;
  job.count = 20;
  job.one = [](uint64_t i, Shared& shared) -> std::string {
    shared.counts[0]++;
    shared.Note(absl::StrCat("piece ", i));
    if (i == 12) {
      signal(SIGSEGV, SIG_DFL);  // sanitizers handle it otherwise
      raise(SIGSEGV);
    }
    if (i == 13) _exit(5);
    if (i == 17) return "seventeen";
    return "";
  };
  job.found = [&](const Finding& f) {
    indexes.push_back(f.index);
    hows.push_back(f.how);
    logs.push_back(f.log);
  };
  const Totals totals = RunJob(job);
  EXPECT_THAT(indexes, ElementsAre(12, 13, 17));
  EXPECT_THAT(hows, ElementsAre(HasSubstr("signal 11"), "exit status 5", "seventeen"));
  EXPECT_THAT(logs, ElementsAre("piece 12", "piece 13", "piece 17"));
  EXPECT_EQ(totals.findings, 3);
  EXPECT_EQ(totals.done, 20);
  EXPECT_EQ(totals.counts[0], 20);
}

TEST(Supervisor, StopsAtTheMostFindings) {
  Job job;
  job.count = 10;
  job.max_findings = 2;
  job.one = [](uint64_t, Shared&) -> std::string { return "wrong"; };
  int found = 0;
  job.found = [&](const Finding&) { ++found; };
  EXPECT_EQ(RunJob(job).findings, 2);
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace backplane::supervisor
