#include "conformance/kit/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "sdk/host/json.h"

namespace backplane::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CheckOutcome Make(const char* id, Result result, const char* detail = "") {
  CheckOutcome o;
  o.id = id;
  o.meaning = "means something";
  o.result = result;
  o.detail = detail;
  o.seconds = 0.25;
  return o;
}

Report Example() {
  Report report;
  report.plugin = "p.so";
  report.facts = host::Json::MakeObject().Set("api", "0.114").Set("platform", "cpu").Set("devices", 2);
  report.seconds = 1.5;
  report.outcomes = {Make("a.one", Result::kPass), Make("a.two", Result::kFail, "went <wrong> & \"so\"\nmore"),
                     Make("b.one", Result::kUnsupported, "no such function"),
                     Make("b.two", Result::kSkip, "one device")};
  LevelResult level;
  level.name = "jax-min";
  level.passed = 1;
  level.wanted = 2;
  level.missing = {"a.two"};
  report.levels = {level};
  return report;
}

TEST(Report, CountsWhatIsBad) {
  Report r = Example();
  EXPECT_FALSE(IsConformant(r));
  r.outcomes[1].expected = "not yet: soon";
  EXPECT_EQ(JudgeOutcome(r.outcomes[1], true), Verdict::kExpected);
  EXPECT_TRUE(IsConformant(r));
  r.demanded = {"jax-min"};
  EXPECT_FALSE(IsConformant(r));  // the level is not reached
  r.levels[0].passed = 2;
  EXPECT_TRUE(IsConformant(r));
  r.outcomes[0].unexpected_pass = true;
  EXPECT_FALSE(IsConformant(r));
}

TEST(Report, AdviceCountsWhenStrict) {
  CheckOutcome o = Make("a.one", Result::kFail);
  o.advice = true;
  EXPECT_EQ(JudgeOutcome(o, false), Verdict::kAdvice);
  EXPECT_EQ(JudgeOutcome(o, true), Verdict::kBad);
  o.result = Result::kUnsupported;
  EXPECT_EQ(JudgeOutcome(o, true), Verdict::kGood);
}

TEST(Report, ConsoleSaysWhatFailedAndTheVerdict) {
  const std::string text = PrintConsole(Example(), false, false);
  EXPECT_THAT(text, HasSubstr("a.two: went <wrong>"));
  EXPECT_THAT(text, HasSubstr("NOT CONFORMANT: 1 pass, 1 fail"));
  EXPECT_THAT(text, HasSubstr("jax-min"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(PrintConsole(Example(), true, false), HasSubstr("\x1b"));
}

TEST(Report, JsonOfAPluginThatCouldNotTellWhatItIs) {
  Report report = Example();
  report.facts = host::Json();
  report.outcomes[1].detail = "bytes \xff\x01 of anything";
  const auto parsed = host::Json::Parse(FormatJson(report));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->Find("facts")->is_null());
  EXPECT_THAT(PrintConsole(report, false, false), HasSubstr("p.so\n"));
}

TEST(Report, JsonIsReadBack) {
  const Report report = Example();
  const auto parsed = host::Json::Parse(FormatJson(report));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed->Find("facts")->Find("api")->string(), "0.114");
  EXPECT_FALSE(*parsed->Find("good")->boolean());
  EXPECT_EQ(*parsed->Find("levels")->array()->front().Find("missing")->array()->front().string(), "a.two");
  const auto read = ReadReport(FormatJson(report));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->outcomes.size(), 4u);
  EXPECT_EQ(read->outcomes[1].id, "a.two");
  EXPECT_EQ(read->outcomes[1].detail, report.outcomes[1].detail);
  EXPECT_EQ(read->outcomes[3].result, Result::kSkip);
  EXPECT_FALSE(ReadReport("{}").ok());
  EXPECT_FALSE(ReadReport(R"({"checks": [{"id": "a", "result": "odd"}]})").ok());
}

TEST(Report, TellsDifferences) {
  Report before = Example(), now = Example();
  EXPECT_TRUE(FindDifferences(before, now).empty());
  now.outcomes[1].result = Result::kPass;
  now.outcomes.push_back(Make("c.new", Result::kPass));
  now.outcomes.erase(now.outcomes.begin());
  EXPECT_THAT(FindDifferences(before, now),
              ElementsAre("a.two: fail -> pass", "c.new: new -> pass", "a.one: pass -> not run"));
}

TEST(Report, JunitIsEscapedAndCounted) {
  const std::string xml = PrintJunit(Example());
  EXPECT_THAT(xml, HasSubstr("tests=\"4\" failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("went &lt;wrong&gt; &amp; &quot;so&quot;"));
  EXPECT_THAT(xml, Not(HasSubstr("<wrong>")));
  EXPECT_THAT(xml, HasSubstr("<skipped message=\"unsupported: no such function\"/>"));
}

TEST(Report, JunitHasCharactersOnlyWhateverThePluginSaid) {
  Report report = Example();
  for (CheckOutcome& outcome : report.outcomes) {
    if (outcome.result != Result::kFail) continue;
    outcome.detail =
        absl::StrCat("a\xff", "b\x1b[31m \xEF\xBF\xBF ", std::string(201, 'x'), "\xC3\xA9\xC3\xA9\xC3\xA9 end");
  }
  const std::string xml = PrintJunit(report);
  EXPECT_THAT(xml, HasSubstr("a\xEF\xBF\xBD"
                             "b[31m  x"));
  EXPECT_THAT(xml, HasSubstr("x\xC3\xA9..."));  // truncated between two characters
  EXPECT_THAT(xml, HasSubstr("\xC3\xA9\xC3\xA9\xC3\xA9 end</failure>"));
}

TEST(Report, HtmlStandsAloneAndCannotBeBrokenByData) {
  Report report = Example();
  report.outcomes[0].detail = "</script><b>";
  const Report before = Example();
  const std::string html = PrintHtml(report, &before);
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  // The data between its marks is JSON after the escape of '<' is undone.
  const size_t begin = html.find("id=\"data\">") + 10, end = html.find("</script>", begin);
  const auto data = host::Json::Parse(html.substr(begin, end - begin));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(*data->Find("now")->Find("checks")->array()->front().Find("detail")->string(), "</script><b>");
  EXPECT_EQ(data->Find("before")->Find("checks")->array()->size(), 4u);
}

}  // namespace
}  // namespace backplane::conformance
