#include "conformance/kit/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace backplane::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ProblemWith(const std::vector<std::string>& words) {
  Options o;
  std::string problem;
  return ParseOptions(words, &o, &problem) ? "" : problem;
}

TEST(Options, ParsesEveryForm) {
  Options o;
  std::string problem;
  ASSERT_TRUE(ParseOptions({"p.so", "--only", "a.*", "--only=b=c", "-v", "--jobs", "3", "--slow=2.5", "-o", "n=1",
                            "--json", "-", "--data", "here"},
                           &o, &problem))
      << problem;
  EXPECT_EQ(o.plugin, "p.so");
  EXPECT_THAT(o.only, ElementsAre("a.*", "b=c"));
  EXPECT_TRUE(o.verbose);
  EXPECT_FALSE(o.quiet);
  EXPECT_EQ(o.jobs, 3);
  EXPECT_EQ(o.slow, 2.5);
  EXPECT_THAT(o.options, ElementsAre("n=1"));
  EXPECT_EQ(o.json, "-");
  EXPECT_EQ(o.data, "here");
  EXPECT_EQ(o.timeout, 20);
}

TEST(Options, TheLastUseOfAnOptionWins) {
  Options o;
  std::string problem;
  ASSERT_TRUE(ParseOptions({"p.so", "--jobs", "2", "--profile", "cpu", "--jobs=3", "--profile", "mine.txt", "-q", "-q"},
                           &o, &problem))
      << problem;
  EXPECT_EQ(o.jobs, 3);
  EXPECT_EQ(o.profile, "mine.txt");
}

TEST(Options, NumbersAreDecimal) {
  Options o;
  std::string problem;
  ASSERT_TRUE(ParseOptions({"p.so", "--timeout", "030", "--slow", "00.5", "--jobs", "00"}, &o, &problem)) << problem;
  EXPECT_EQ(o.timeout, 30);
  EXPECT_EQ(o.slow, 0.5);
  EXPECT_EQ(o.jobs, 0);
}

TEST(Options, ArgumentsAfterRunAreIds) {
  Options o;
  std::string problem;
  ASSERT_TRUE(ParseOptions({"p.so", "--strict", "--run", "a.one", "--list"}, &o, &problem)) << problem;
  EXPECT_TRUE(o.strict);
  EXPECT_FALSE(o.list);
  EXPECT_THAT(o.run, ElementsAre("a.one", "--list"));
}

TEST(Options, RefusesInvalidArguments) {
  EXPECT_THAT(ProblemWith({"a.so", "b.so"}), HasSubstr("not expected: b.so"));
  EXPECT_THAT(ProblemWith({"a.so", "--jsn", "x"}), HasSubstr("--jsn"));
  EXPECT_THAT(ProblemWith({"--json"}), HasSubstr("--json"));
  EXPECT_THAT(ProblemWith({"--json=", "p.so"}), HasSubstr("--json= needs a value"));
  EXPECT_THAT(ProblemWith({"--jobs", "many"}), HasSubstr("--jobs = many"));
  EXPECT_THAT(ProblemWith({"--list=x"}), HasSubstr("list"));
  EXPECT_THAT(ProblemWith({"--jobs", "-1"}), HasSubstr("--jobs needs"));
  EXPECT_THAT(ProblemWith({"--timeout", "0"}), HasSubstr("--timeout needs"));
  EXPECT_THAT(ProblemWith({"--slow", "0"}), HasSubstr("--slow needs"));
  EXPECT_THAT(ProblemWith({"--color", "blue"}), HasSubstr("not 'blue'"));
}

TEST(Options, HelpNamesEachOption) {
  const std::string help = PrintHelp("conform");
  Options o;
  for (const OptionLine& line : MakeOptionLines(&o)) {
    EXPECT_THAT(help, HasSubstr(line.help)) << line.names;
  }
  EXPECT_THAT(help, HasSubstr("--quiet, -q"));
  EXPECT_THAT(help, HasSubstr(kExitStatusHelp));
}

}  // namespace
}  // namespace backplane::conformance
