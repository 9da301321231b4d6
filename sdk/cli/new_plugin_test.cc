// Tests projects from templates: replacements, and names that are refused.
#include "sdk/cli/new_plugin.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/cli/command.h"

namespace backplane::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NewPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/new_plugin_XXXXXX";
    root_ = mkdtemp(folder);
    Write("t/python/@name@/__init__.py", "NAME = '@name@'\n");
    Write("t/README.md", "# @Name@, @NAME@ for Backplane @version@: mail me@name.example\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string Read(const std::string& path) {
    std::ifstream in(root_ / path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  absl::StatusOr<std::vector<std::string>> Make(const std::string& folder, const std::string& name) {
    return MakeProject((root_ / "t").string(), (root_ / folder).string(), name);
  }
  fs::path root_;
};

TEST_F(NewPluginTest, NamesAndContentsAreReplaced) {
  auto files = Make("deep/out", "my_2nd_chip");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre("README.md", "python/my_2nd_chip/__init__.py"));
  EXPECT_EQ(Read("deep/out/python/my_2nd_chip/__init__.py"), "NAME = 'my_2nd_chip'\n");
  EXPECT_EQ(Read("deep/out/README.md"), "# My2ndChip, MY_2ND_CHIP for Backplane 0.1.0: mail me@name.example\n");
}

TEST_F(NewPluginTest, NothingIsOverwritten) {
  Write("full/mine.txt", "mine");
  EXPECT_EQ(Make("full", "chip").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Make("full/mine.txt", "chip").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Read("full/mine.txt"), "mine");
  EXPECT_FALSE(fs::exists(root_ / "full/README.md"));
  fs::create_directories(root_ / "empty");
  EXPECT_TRUE(Make("empty", "chip").ok());
}

TEST_F(NewPluginTest, NamesThatCannotBe) {
  for (const char* name : {"", "2nd", "My_chip", "my-chip", "my chip", "_chip", "chip_", "my__chip", "class", "cpu",
                           "backplane", "../chip", "chip/x", "chíp"}) {
    const absl::Status status = CheckPluginName(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_FALSE(Make("refused", name).ok());
    EXPECT_FALSE(fs::exists(root_ / "refused"));
  }
  EXPECT_FALSE(CheckPluginName(std::string(41, 'a')).ok());
  for (const char* name : {"a", "chip", "my_chip", "c7"}) EXPECT_TRUE(CheckPluginName(name).ok()) << name;
}

TEST_F(NewPluginTest, WithoutTemplatesThereIsAnErrorAndNoFolder) {
  EXPECT_FALSE(MakeProject((root_ / "none").string(), (root_ / "out").string(), "chip").ok());
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(NewPluginTest, APageForEachCommand) {
  bool flag = false;
  std::string path;
  std::vector<std::string> inputs;
  Command command{"run", "runs a program"};
  command.options = {{"program", &path, "the program", "PROGRAM", true},
                     {"--fast,-f", &flag, "don't wait"},
                     {"--input", &inputs, ".npy or literal", "FILE", false, {"a", "b"}}};
  command.details = ".starts with a dot";
  Command secret{"secret", "nobody's business"};
  secret.hidden = true;
  ASSERT_TRUE(WriteManual({command, secret}, "does things", "the end", (root_ / "man").string()).ok());
  const std::string page = Read("man/backplane-run.1");
  EXPECT_THAT(page, HasSubstr(".TH \"backplane\\-run\" 1"));
  EXPECT_THAT(page, HasSubstr(".B backplane run\n\\fIPROGRAM\\fR\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-fast\\fR, \\fB\\-f\\fR\ndon't wait\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-input\\fR \\fIFILE\\fR\n\\&.npy or literal (a, b); may be repeated\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.starts with a dot\n"));
  EXPECT_THAT(Read("man/backplane.1"), HasSubstr("\\fBrun\\fR\nruns a program\n"));
  EXPECT_FALSE(fs::exists(root_ / "man/backplane-secret.1"));
}

}  // namespace
}  // namespace backplane::cli
