#include "sdk/backend/build_id.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

TEST(BuildIdTest, IsHexadecimalOrNone) {
  const std::string id = BuildId();
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(id, BuildId());
  if (id == "none") return;  // the linker writes no ids
  EXPECT_GE(id.size(), 8u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
}

}  // namespace
}  // namespace backplane
