// Verification, disabling and dumping of passes, and the pass registry.
#include "core/passes/debugging.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/passes/passes.h"
#include "core/passes/registry/registry.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kTwice[] = R"(HloModule odd.name
ENTRY e {
  x = f32[2] parameter(0)
  a = f32[2] add(x, x)
  b = f32[2] add(x, x)
  ROOT m = f32[2] multiply(a, b)
})";

std::unique_ptr<Module> Twice() { return *ParseHloModule(kTwice); }

TEST(PassDebugging, ReadsTheEnvironment) {
  setenv("BACKPLANE_DISABLE_PASSES", "fold-constants,unroll-loops", 1);
  setenv("BACKPLANE_VERIFY_PASSES", "1", 1);
  setenv("BACKPLANE_TIME_PASSES", "0", 1);
  setenv("BACKPLANE_DUMP_PASSES", "/some/where", 1);
  const PassDebugging debugging = PassDebugging::FromEnvironment();
  EXPECT_THAT(debugging.disabled, ElementsAre("fold-constants", "unroll-loops"));
  EXPECT_TRUE(debugging.verify);
  EXPECT_FALSE(debugging.time_each);
  EXPECT_EQ(debugging.dump_folder, "/some/where");
  for (const char* name : {"DISABLE", "VERIFY", "TIME", "DUMP"}) {
    unsetenv(("BACKPLANE_" + std::string(name) + "_PASSES").c_str());
  }
  EXPECT_THAT(PassDebugging::FromEnvironment().disabled, IsEmpty());
}

TEST(PassDebugging, LeavesPassesOut) {
  PassDebugging debugging;
  EliminateCommonSubexpressions pass;
  std::unique_ptr<Module> module = Twice();
  debugging.disabled = {"eliminate-common-subexpressions"};
  EXPECT_FALSE(*RunPass(pass, module.get(), false, debugging));
  EXPECT_EQ(module->entry()->instruction_count(), 4);
  debugging.disabled = {"another"};
  EXPECT_TRUE(*RunPass(pass, module.get(), false, debugging));
  EXPECT_EQ(module->entry()->instruction_count(), 3);
}

TEST(PassDebugging, RefusesToLeaveOutWhatOthersCountOn) {
  PassDebugging debugging;
  debugging.disabled = {"inline-calls"};
  InlineCalls pass;
  const absl::Status status = RunPass(pass, Twice().get(), false, debugging).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("inline-calls cannot be left out"));
}

TEST(PassDebugging, WritesTheModuleBeforeAndAfterAPassThatChangesIt) {
  PassDebugging debugging;
  debugging.dump_folder = ::testing::TempDir() + "/dumped_passes";
  std::filesystem::remove_all(debugging.dump_folder);
  std::unique_ptr<Module> module = Twice();
  EliminateCommonSubexpressions pass;
  ASSERT_TRUE(RunPass(pass, module.get(), false, debugging).ok());
  ASSERT_TRUE(RunPass(pass, module.get(), false, debugging).ok());  // changes nothing and writes nothing
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(debugging.dump_folder)) {
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    const std::string name = file.path().filename().string();
    auto again = ParseHloModule(text.str());
    ASSERT_TRUE(again.ok()) << name << ": " << again.status();
    EXPECT_EQ((*again)->entry()->instruction_count(), name.find(".after.") == std::string::npos ? 4 : 3);
    names.insert(name.substr(name.find('.')));
  }
  EXPECT_THAT(names, ElementsAre(".odd_name.eliminate-common-subexpressions.after.hlo",
                                 ".odd_name.eliminate-common-subexpressions.before.hlo"));
}

TEST(PassDebugging, AFolderThatCannotBeWrittenIsAnError) {
  PassDebugging debugging;
  debugging.dump_folder = "/proc/nowhere";
  EliminateCommonSubexpressions pass;
  EXPECT_EQ(RunPass(pass, Twice().get(), false, debugging).status().code(), absl::StatusCode::kUnavailable);
}

TEST(PassRegistry, ListsEveryPassOnceAndMakesIt) {
  std::set<std::string> names;
  for (const RegisteredPass& pass : ListPasses()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.summary.empty());
    auto made = MakePass(pass.name);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ((*made)->name(), pass.name);
  }
  for (const RegisteredPass& pass : ListPasses()) {
    for (const std::string& member : pass.runs) EXPECT_TRUE(names.count(member)) << member;
  }
  EXPECT_GE(names.size(), 22u);
  EXPECT_THAT(std::string(MakePass("no-such").status().message()), HasSubstr("remove-dead-code"));
}

}  // namespace
}  // namespace backplane
