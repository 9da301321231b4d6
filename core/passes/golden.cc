#include "core/passes/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "core/passes/same_results.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::string Trim(absl::string_view s) { return std::string(absl::StripAsciiWhitespace(s)); }

}  // namespace

void RunGoldenFile(const std::string& path, const std::function<std::unique_ptr<Pass>()>& make_pass,
                   const GoldenOptions& options) {
  const std::string file = std::string(BACKPLANE_SOURCE_DIR) + "/" + path;
  const bool update = std::getenv("BACKPLANE_UPDATE_GOLDEN") != nullptr;
  std::string rewritten;
  int cases = 0, not_evaluated = 0;
  for (absl::string_view one : absl::StrSplit(Read(file), "// ----\n")) {
    if (Trim(one).empty()) continue;
    ++cases;
    const std::vector<std::string> halves = absl::StrSplit(one, "// ==>\n");
    ASSERT_TRUE(update || halves.size() == 2) << path << ": case " << cases << " has no result";
    SCOPED_TRACE(halves[0]);
    absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(halves[0]);
    ASSERT_TRUE(module.ok()) << module.status();
    ASSERT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module);
    std::unique_ptr<Pass> pass = make_pass();
    const std::string before = (*module)->ToString();
    absl::StatusOr<bool> changed = pass->Run(module->get());
    ASSERT_TRUE(changed.ok()) << changed.status();
    if (options.verify_after) {
      EXPECT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module) << (*module)->ToString();
    }
    const std::string after = (*module)->ToString();
    EXPECT_EQ(*changed, before != after);
    if (options.same_results) {
      SameResultsOptions same;
      same.tolerance = options.tolerance;
      same.int_low = options.int_low;
      same.int_high = options.int_high;
      const std::unique_ptr<Module> untouched = *ParseHloModule(halves[0]);
      if (absl::StatusOr<std::string> difference = DescribeDifferenceOfResults(*untouched, **module, same);
          difference.ok()) {
        EXPECT_EQ(*difference, "") << after;
      } else if (++not_evaluated > options.not_evaluated) {
        ADD_FAILURE() << "cannot be evaluated: " << difference.status();
      }
    }
    absl::StatusOr<bool> again = pass->Run(module->get());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(*again) << "a second run changed:\n" << (*module)->ToString();
    if (update) {
      rewritten += (rewritten.empty() ? "" : "// ----\n") + Trim(halves[0]) + "\n// ==>\n" + Trim(after) + "\n";
    } else {
      EXPECT_EQ(Trim(after), Trim(halves[1]));
    }
  }
  EXPECT_GT(cases, 0) << path;
  EXPECT_EQ(not_evaluated, options.not_evaluated) << path;
  if (update) std::ofstream(file) << rewritten;
}

}  // namespace backplane
