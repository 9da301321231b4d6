// Every row of the list of operations has a case in conformance/cases/ops.
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/ir/ops/row_walk_test.h"
#include "gtest/gtest.h"

namespace backplane::rows {
namespace {

TEST(Rows, HaveCases) {
  std::set<std::string> covered;
  for (const auto& file : std::filesystem::directory_iterator(BACKPLANE_SOURCE_DIR "/conformance/cases/ops")) {
    if (file.path().extension() != ".case") continue;
    const std::string text = ReadFile(file.path().string());
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (absl::ConsumePrefix(&line, "covers ")) covered.emplace(absl::StripAsciiWhitespace(line));
    }
  }
  std::set<std::string> rows;
  for (const Row& r : Rows()) {
    rows.insert(r.name);
    EXPECT_TRUE(covered.contains(r.name)) << r.name << " has no case";
  }
  for (const std::string& name : covered) EXPECT_TRUE(rows.contains(name)) << name << " is no row, but has a case";
}

}  // namespace
}  // namespace backplane::rows
