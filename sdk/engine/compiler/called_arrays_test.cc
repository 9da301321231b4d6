// Reductions, windows, scatters, sorts and maps whose computations build arrays, loop, branch and call further ones:
// all of it is compiled, and gives what the evaluator gives.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/passes/called_arrays_cases.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

class CalledArrays : public ::testing::TestWithParam<CalledArraysCase> {};

TEST_P(CalledArrays, AreCompiled) {
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  options.stored = false;
  options.low = -2;
  options.high = 4;
  options.int_low = -2;
  options.int_high = 4;
  EXPECT_EQ(ProgramDifference(GetParam().hlo, options), "");
  for (const std::string& line : log) EXPECT_FALSE(absl::StrContains(line, "interpreted")) << line;
}

INSTANTIATE_TEST_SUITE_P(Programs, CalledArrays, ::testing::ValuesIn(CalledArraysCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace backplane::engine
