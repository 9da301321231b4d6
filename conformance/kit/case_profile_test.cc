#include "conformance/kit/case_profile.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::conformance {
namespace {

Case Named(const char* name) {
  Case c;
  c.name = name;
  c.file = "f";
  return c;
}
const Outcome kPass{Outcome::kPass, "", {}}, kFail{Outcome::kFail, "why", {}},
    kUnsupported{Outcome::kUnsupported, "what", {}};

TEST(CaseProfile, WhatIsKnownDoesNotCountAndMustBeTrue) {
  absl::StatusOr<CaseProfile> profile =
      CaseProfile::Parse("# a comment\nadd/one  no such type\n\nadd/x* slow\nnone never\n", "p");
  ASSERT_TRUE(profile.ok());
  CaseTally tally(&*profile);
  EXPECT_EQ(tally.Add(Named("sub/a"), kPass), "");
  EXPECT_EQ(tally.Add(Named("sub/b"), kFail), "sub/b (f:0): failed: why");
  EXPECT_EQ(tally.Add(Named("sub/c"), kUnsupported), "sub/c (f:0): unsupported: what");
  EXPECT_EQ(tally.Add(Named("add/one"), kFail), "");
  EXPECT_EQ(tally.Add(Named("add/x1"), kUnsupported), "");
  EXPECT_EQ(tally.failed(), 1);
  EXPECT_EQ(tally.Add(Named("add/x2"), kPass), "add/x2: passed, though the profile says: slow");
  EXPECT_THAT(tally.Finish(false), ::testing::IsEmpty());
  EXPECT_THAT(tally.Finish(true), ::testing::ElementsAre("none: in the profile, but there is no such case"));
  EXPECT_EQ(tally.Summary(), "1 passed, 3 failed, 1 unsupported, 2 known not to pass");
}

TEST(CaseProfile, NothingMayBeUnsupportedWhereAllIsAsked) {
  CaseProfile none;
  CaseTally tally(&none, /*all=*/true);
  EXPECT_EQ(tally.Add(Named("sub/c"), kUnsupported), "sub/c (f:0): unsupported: what");
  EXPECT_EQ(tally.failed(), 1);
}

TEST(CaseProfile, ALineNeedsAReason) {
  EXPECT_EQ(CaseProfile::Parse("\nadd/one\n", "p").status().message(), "p:2: 'add/one' without a reason");
  EXPECT_EQ(CaseProfile::Read("no/such/file").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace backplane::conformance
