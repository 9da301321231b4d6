#include "conformance/kit/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace backplane::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kIds = {"a.one", "a.two", "b.one"};

std::vector<CheckOutcome> Outcomes(Result one, Result two, Result three) {
  std::vector<CheckOutcome> outcomes(3);
  for (size_t i = 0; i < 3; ++i) outcomes[i].id = kIds[i];
  outcomes[0].result = one;
  outcomes[1].result = two;
  outcomes[2].result = three;
  return outcomes;
}

TEST(Profile, ReadsItsLines) {
  const auto p = ParseProfile(
      "# a plugin\noption n=4\nstrict\nclaims jax-min  # promised\nnever a.* no such thing\nnot-yet b.one issue 7 # "
      "soon\n",
      "p.txt");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_THAT(p->options, ElementsAre("n=4"));
  EXPECT_THAT(p->claims, ElementsAre("jax-min"));
  EXPECT_TRUE(p->strict);
  ASSERT_EQ(p->lines.size(), 2u);
  EXPECT_EQ(p->lines[0].kind, Profile::Line::kNever);
  EXPECT_EQ(p->lines[1].pattern, "b.one");
  EXPECT_EQ(p->lines[1].reason, "issue 7");
}

TEST(Profile, RefusesLinesWithoutReason) {
  for (const char* text : {"never a.one", "not-yet a.one   ", "maybe a.one why", "strict yes", "option"}) {
    const auto p = ParseProfile(text, "p.txt");
    ASSERT_FALSE(p.ok()) << text;
    EXPECT_THAT(std::string(p.status().message()), HasSubstr("p.txt:1: "));
  }
}

TEST(Profile, ForeseesFailuresAndCatchesUnexpectedPasses) {
  const auto p = ParseProfile("not-yet a.one later\nnever b.one never had\n", "p.txt");
  ASSERT_TRUE(p.ok());
  auto outcomes = Outcomes(Result::kPass, Result::kFail, Result::kFail);
  ASSERT_TRUE(ApplyProfile(*p, kIds, &outcomes).ok());
  EXPECT_TRUE(outcomes[0].unexpected_pass);
  EXPECT_EQ(outcomes[1].expected, "");
  EXPECT_EQ(outcomes[2].expected, "never: never had");
}

TEST(Profile, AGroupIsOutOfDateOnlyAsAWhole) {
  const auto p = ParseProfile("not-yet a.* later\n", "p.txt");
  ASSERT_TRUE(p.ok());
  auto some = Outcomes(Result::kPass, Result::kFail, Result::kPass);
  ASSERT_TRUE(ApplyProfile(*p, kIds, &some).ok());
  EXPECT_FALSE(some[0].unexpected_pass);
  EXPECT_EQ(some[1].expected, "not yet: later");
  auto all = Outcomes(Result::kPass, Result::kPass, Result::kFail);
  ASSERT_TRUE(ApplyProfile(*p, kIds, &all).ok());
  EXPECT_TRUE(all[0].unexpected_pass && all[1].unexpected_pass);
  EXPECT_EQ(all[2].expected, "");
}

TEST(Profile, WhatVariesIsNeverOutOfDate) {
  const auto p = ParseProfile("varies a.* not on every machine\n", "p.txt");
  ASSERT_TRUE(p.ok());
  auto outcomes = Outcomes(Result::kPass, Result::kFail, Result::kFail);
  ASSERT_TRUE(ApplyProfile(*p, kIds, &outcomes).ok());
  EXPECT_FALSE(outcomes[0].unexpected_pass);
  EXPECT_EQ(outcomes[1].expected, "varies: not on every machine");
  EXPECT_EQ(outcomes[2].expected, "");  // another check
  auto all = Outcomes(Result::kPass, Result::kPass, Result::kPass);
  ASSERT_TRUE(ApplyProfile(*p, kIds, &all).ok());
  EXPECT_FALSE(all[0].unexpected_pass || all[1].unexpected_pass);
}

TEST(Profile, ALineThatMeetsNothingIsAnError) {
  const auto p = ParseProfile("never c.one gone\n", "p.txt");
  ASSERT_TRUE(p.ok());
  auto outcomes = Outcomes(Result::kPass, Result::kPass, Result::kPass);
  EXPECT_THAT(std::string(ApplyProfile(*p, kIds, &outcomes).message()), HasSubstr("'c.one'"));
}

TEST(Level, IsMetWhenAllOfItPasses) {
  const auto level = ParseLevel("# What JAX needs\na.*\nb.one\n", "l");
  ASSERT_TRUE(level.ok());
  EXPECT_EQ(level->meaning, "What JAX needs");
  auto met = ComputeLevelResult(*level, kIds, Outcomes(Result::kPass, Result::kPass, Result::kPass));
  ASSERT_TRUE(met.ok());
  EXPECT_TRUE(met->met());
  EXPECT_EQ(met->wanted, 3u);
  for (Result other : {Result::kFail, Result::kUnsupported, Result::kSkip}) {
    auto not_met = ComputeLevelResult(*level, kIds, Outcomes(Result::kPass, other, Result::kPass));
    ASSERT_TRUE(not_met.ok());
    EXPECT_FALSE(not_met->met());
    EXPECT_THAT(not_met->missing, ElementsAre("a.two"));
  }
}

TEST(Level, IsNotMetByChecksThatDidNotRun) {
  const auto level = ParseLevel("a.*\nb.one\n", "l");
  ASSERT_TRUE(level.ok());
  std::vector<CheckOutcome> some = Outcomes(Result::kPass, Result::kPass, Result::kPass);
  some.pop_back();
  auto judged = ComputeLevelResult(*level, kIds, some);
  ASSERT_TRUE(judged.ok());
  EXPECT_FALSE(judged->met());
  EXPECT_EQ(judged->not_run, 1u);
}

TEST(Level, AnUnknownCheckIsAnError) {
  const auto level = ParseLevel("c.*\n", "l");
  ASSERT_TRUE(level.ok());
  EXPECT_FALSE(ComputeLevelResult(*level, kIds, Outcomes(Result::kPass, Result::kPass, Result::kPass)).ok());
  EXPECT_FALSE(ParseLevel("a.one a.two\n", "l").ok());
}

}  // namespace
}  // namespace backplane::conformance
