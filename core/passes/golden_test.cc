// Golden cases: testdata/<pass>.hlo holds cases of the form
//
//   // what the case shows
//   HloModule ...           the module before
//   // ==>
//   HloModule ...           the module after the pass
//   // ----                 between cases
//
// Each must come out as written, verify before and after, and not change in a second run. With
// BACKPLANE_UPDATE_GOLDEN=1 in the environment the files are rewritten; read the diff then.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/passes/passes.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

std::unique_ptr<Pass> MakePass(const std::string& name) {
  std::unique_ptr<Pass> all[] = {
      std::make_unique<InlineCalls>(),        std::make_unique<UnshareComputations>(),
      std::make_unique<SimplifyTuples>(),     std::make_unique<SimplifyControlFlow>(),
      std::make_unique<RemoveDeadCode>(),     std::make_unique<EliminateCommonSubexpressions>(),
      std::make_unique<SimplifyAlgebra>(),    std::make_unique<ExpandOperations>(),
      std::make_unique<FoldConstants>(16)};
  for (auto& p : all) {
    if (p->name() == name) return std::move(p);
  }
  return nullptr;
}

std::string Read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::string Trim(absl::string_view s) { return std::string(absl::StripAsciiWhitespace(s)); }

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, ComesOutAsWritten) {
  const std::string name = GetParam();
  const std::string path = std::string(BACKPLANE_SOURCE_DIR) + "/core/passes/testdata/" + name + ".hlo";
  const bool update = std::getenv("BACKPLANE_UPDATE_GOLDEN") != nullptr;
  std::string rewritten;
  int cases = 0;
  for (absl::string_view one : absl::StrSplit(Read(path), "// ----\n")) {
    if (Trim(one).empty()) continue;
    ++cases;
    const std::vector<std::string> halves = absl::StrSplit(one, "// ==>\n");
    ASSERT_TRUE(update || halves.size() == 2) << path << ": case " << cases << " has no result";
    SCOPED_TRACE(halves[0]);
    absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(halves[0]);
    ASSERT_TRUE(module.ok()) << module.status();
    ASSERT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module);
    std::unique_ptr<Pass> pass = MakePass(name);
    ASSERT_NE(pass, nullptr) << name;
    const std::string before = (*module)->ToString();
    absl::StatusOr<bool> changed = pass->Run(module->get());
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module);
    const std::string after = (*module)->ToString();
    EXPECT_EQ(*changed, before != after);
    absl::StatusOr<bool> again = pass->Run(module->get());
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE(*again) << "a second run changed:\n" << (*module)->ToString();
    if (update) {
      rewritten += (rewritten.empty() ? "" : "// ----\n") + Trim(halves[0]) + "\n// ==>\n" + Trim(after) + "\n";
    } else {
      EXPECT_EQ(Trim(after), Trim(halves[1]));
    }
  }
  EXPECT_GT(cases, 0) << path;
  if (update) std::ofstream(path) << rewritten;
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden,
                         testing::Values("inline-calls", "unshare-computations", "simplify-tuples", "simplify-control-flow",
                                         "remove-dead-code", "eliminate-common-subexpressions", "simplify-algebra",
                                         "expand-operations", "fold-constants"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace backplane
