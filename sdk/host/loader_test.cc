// Tests the loader, the probe and discovery with plugins that have one defect each (sdk/testing/fake_plugins).
#include "sdk/host/loader.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/host/client.h"
#include "sdk/host/discovery.h"
#include "sdk/host/elf_file.h"
#include "sdk/host/probe.h"

namespace backplane::host {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Fake(const std::string& kind) { return std::string(BACKPLANE_FAKE_PLUGIN_DIR) + "/" + kind + ".so"; }

absl::Status LoadStatus(const std::string& path) { return Plugin::Load(path).status(); }

TEST(Loader, RefusesWhatIsNoPlugin) {
  EXPECT_EQ(LoadStatus("/nowhere/plugin.so").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadStatus("/").code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status text = LoadStatus(std::string(BACKPLANE_SOURCE_DIR) + "/README.md");
  EXPECT_EQ(text.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(text.message(), HasSubstr("cannot be opened"));
  EXPECT_THAT(LoadStatus(Fake("no_symbol")).message(), HasSubstr("does not export GetPjrtApi"));
  EXPECT_THAT(LoadStatus(Fake("null_table")).message(), HasSubstr("returned no table"));
  EXPECT_THAT(LoadStatus(Fake("tiny_table")).message(), HasSubstr("16 bytes"));
  EXPECT_THAT(LoadStatus(Fake("no_errors")).message(), HasSubstr("functions that read errors"));
}

TEST(Loader, NamesTheMissingLibraries) {
  const absl::Status status = LoadStatus(Fake("missing"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("it needs libfakevendor.so, which is not installed"));
}

TEST(Loader, NegotiatesVersions) {
  EXPECT_THAT(LoadStatus(Fake("ancient")).message(), AllOf(HasSubstr("0.28"), HasSubstr("0.29")));
  EXPECT_THAT(LoadStatus(Fake("other_major")).message(), HasSubstr("speaks PJRT C API 1.0, expected major version 0"));
  absl::StatusOr<const Plugin*> newer = Plugin::Load(Fake("newer"));
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ((*newer)->minor_version(), 999);
  ASSERT_EQ((*newer)->extensions().size(), 1u);
  EXPECT_EQ(ExtensionName((*newer)->extensions()[0].type), "extension 777");
  EXPECT_EQ((*newer)->Extension<PJRT_Extension_Base>(static_cast<PJRT_Extension_Type>(777), 1000), nullptr);
  EXPECT_NE((*newer)->Extension<PJRT_Extension_Base>(static_cast<PJRT_Extension_Type>(777), 24), nullptr);
}

TEST(Loader, ServesAnOldPluginWithItsOwnSizes) {
  absl::StatusOr<const Plugin*> old = Plugin::Load(Fake("old"));
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_TRUE((*old)->Has(&PJRT_Api::PJRT_Client_Create));
  EXPECT_FALSE((*old)->Has(&PJRT_Api::PJRT_Memory_Kind_Id)) << "a slot behind the end of the table";
  absl::StatusOr<Client> client = Client::Create(**old);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(client->PlatformName().value(), "fake");
  const absl::Status missing = client->GetTopology().status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("PJRT_Client_TopologyDescription"), HasSubstr("0.40")));
}

TEST(Loader, NullSlotsAreErrorsNotCrashes) {
  absl::StatusOr<const Plugin*> plugin = Plugin::Load(Fake("null_slots"));
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ(Client::Create(**plugin).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*plugin)->Attributes().value()[0].FormatValue(), "42");
}

TEST(Loader, NoClientAfterAFailedInitialize) {
  absl::StatusOr<const Plugin*> plugin = Plugin::Load(Fake("init_fails"));
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  for (int i = 0; i < 2; ++i) {  // its PJRT_Client_Create aborts
    const absl::Status status = Client::Create(**plugin).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("the fake hardware is not plugged in"));
  }
}

TEST(Loader, CutsAChainThatComesBack) {
  absl::StatusOr<const Plugin*> plugin = Plugin::Load(Fake("chain_loop"));
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->extensions().size(), 2u);
}

TEST(Loader, OneObjectForOneLibrary) {
  const std::string again = std::string(BACKPLANE_FAKE_PLUGIN_DIR) + "/../" +
                            std::filesystem::path(BACKPLANE_FAKE_PLUGIN_DIR).filename().string() + "/newer.so";
  EXPECT_EQ(Plugin::Load(Fake("newer")).value(), Plugin::Load(again).value());
}

// ---- Probe

ProbeResult MustProbe(const std::string& library, absl::Duration timeout = absl::Seconds(20)) {
  // In the child a crash must stay a crash.
  setenv("ASAN_OPTIONS", "handle_segv=0:handle_abort=0:detect_leaks=0", 1);
  setenv("TSAN_OPTIONS", "handle_segv=0:handle_abort=0:report_bugs=0", 1);
  ProbeOptions options;
  options.helper = {BACKPLANE_PROBE_HELPER};
  options.timeout = timeout;
  absl::StatusOr<ProbeResult> result = Probe(library, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : ProbeResult();
}

TEST(ProbeTest, TellsWhatAPluginIs) {
  const ProbeResult result = MustProbe(Fake("newer"));
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.stage, "done");
  EXPECT_EQ(*result.facts.Find("platform_name")->string(), "fake");
  EXPECT_EQ(*result.facts.Find("attributes")->Find("answer")->integer(), 42);
  EXPECT_EQ(*result.facts.Find("api_version")->array()->at(1).integer(), 999);
  EXPECT_EQ(*result.facts.Find("slots")->Find("present")->integer(), 9);
}

TEST(ProbeTest, SurvivesCrashes) {
  const ProbeResult load = MustProbe(Fake("crash_load"));
  EXPECT_EQ(load.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(load.status.message(), HasSubstr("crashed with SIGSEGV while it was opened"));
  const ProbeResult client = MustProbe(Fake("crash_client"));
  EXPECT_THAT(client.status.message(), HasSubstr("crashed with SIGABRT in PJRT_Client_Create"));
  EXPECT_NE(client.facts.Find("attributes"), nullptr) << "what was learned before the crash";
  const ProbeResult init = MustProbe(Fake("abort_init"));
  EXPECT_THAT(init.status.message(), HasSubstr("in PJRT_Plugin_Initialize"));
  EXPECT_THAT(init.output, HasSubstr("check failed: hardware"));
#ifndef BACKPLANE_THREAD_SANITIZER  // ThreadSanitizer changes the status of a process that exits while it opens a
                                    // library
  const ProbeResult exit = MustProbe(Fake("exit_load"));
  EXPECT_THAT(exit.status.message(), HasSubstr("ended the process with status 7 while it was opened"));
#endif
}

TEST(ProbeTest, EndsHangs) {
  const ProbeResult load = MustProbe(Fake("hang_load"), absl::Milliseconds(500));
  EXPECT_EQ(load.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(load.status.message(), HasSubstr("within 500ms while it was opened"));
  EXPECT_LT(load.duration, absl::Seconds(5));
  const ProbeResult client = MustProbe(Fake("hang_client"), absl::Milliseconds(500));
  EXPECT_THAT(client.status.message(), HasSubstr("in PJRT_Client_Create"));
}

TEST(ProbeTest, EndsProcessesThatThePluginStarts) {
  const ProbeResult result = MustProbe(Fake("chatty_load"));
  EXPECT_LT(result.duration, absl::Seconds(10));
  EXPECT_THAT(result.output, HasSubstr("chatter"));
}

TEST(ProbeTest, APluginNeedsNoAttributes) {
  const ProbeResult result = MustProbe(Fake("no_attributes"));
  EXPECT_NE(result.stage, "attributes") << result.status;
}

TEST(ProbeTest, PassesOnErrors) {
  const ProbeResult failed = MustProbe(Fake("init_fails"));
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(failed.status.message(), HasSubstr("not plugged in"));
  EXPECT_EQ(MustProbe("/nowhere.so").status.code(), absl::StatusCode::kNotFound);
  ProbeOptions none;
  none.helper = {"/nowhere/helper"};
  EXPECT_FALSE(Probe(Fake("newer"), none).ok());
}

// Plugins of vendors, in the Python environment BACKPLANE_VENDOR_WHEELS (see `pip install --no-deps jax-cuda13-pjrt
// jax-rocm7-pjrt libtpu`). Each must work or give one sentence, in bounded time.
TEST(ProbeTest, VendorsEndInOneSentence) {
  const char* prefix = getenv("BACKPLANE_VENDOR_WHEELS");
  if (prefix == nullptr) GTEST_SKIP() << "BACKPLANE_VENDOR_WHEELS names no Python environment";
  DiscoveryOptions where;
  where.python_prefixes = {prefix};
  const Discovery found = Discover(where);
  EXPECT_FALSE(found.plugins.empty());
  for (const FoundPlugin& plugin : found.plugins) {
    for (const char* skip_metadata : {"", "1"}) {
      // Only libtpu reads the variable. Without it, it queries a metadata server that does not exist here.
      if (*skip_metadata != '\0' && plugin.name != "tpu") continue;
      *skip_metadata != '\0' ? setenv("TPU_SKIP_MDS_QUERY", skip_metadata, 1) : unsetenv("TPU_SKIP_MDS_QUERY");
      const ProbeResult result = MustProbe(plugin.library, absl::Seconds(10));
      EXPECT_LT(result.duration, absl::Seconds(15));
      EXPECT_EQ(result.stage == "done", result.status.ok());
      if (!result.status.ok()) {
        EXPECT_THAT(result.status.message(), AllOf(HasSubstr(plugin.library), Not(HasSubstr("\n"))));
      }
      printf("%s: %s\n", plugin.name.c_str(), result.status.ToString().c_str());
    }
  }
  unsetenv("TPU_SKIP_MDS_QUERY");
}

// ---- Files

TEST(ElfFileTest, ReadsALibrary) {
  absl::StatusOr<ElfFile> file = ReadElf(Fake("newer"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(Exports(*file, "GetPjrtApi"));
  EXPECT_FALSE(Exports(*file, "Initialize"));
  EXPECT_THAT(file->needed, ::testing::Contains("libc.so.6"));
  EXPECT_THAT(FindMissingLibraries(*file), ::testing::IsEmpty());
  EXPECT_THAT(FindMissingLibraries(*ReadElf(Fake("missing"))), ::testing::ElementsAre("libfakevendor.so"));
}

TEST(ElfFileTest, BrokenFilesAreErrors) {
  std::ifstream in(Fake("newer"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const std::string path = ::testing::TempDir() + "/cut.so";
  ASSERT_GT(whole.size(), 4096u);
  // The file truncated at any size, and with each byte of the header and of the section table inverted, gives an error
  // or some result, but never a crash.
  for (size_t size = 0; size < whole.size(); size += 997) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    EXPECT_FALSE(ReadElf(path).ok()) << size;
  }
  auto invert_bytes = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(~changed[i]);
      std::ofstream(path, std::ios::binary) << changed;
      ReadElf(path).IgnoreError();
    }
  };
  invert_bytes(0, 64);
  invert_bytes(whole.size() - 256, whole.size());
}

// ---- Discovery

class DiscoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) / ("discovery" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
    for (const char* variable : {"PJRT_NAMES_AND_LIBRARY_PATHS", "VIRTUAL_ENV", "BACKPLANE_PLUGIN_PATH"})
      unsetenv(variable);
    for (const char* variable : {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS"}) {
      setenv(variable, (root_ / variable).c_str(), 1);
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

TEST_F(DiscoveryTest, ReadsTheVariable) {
  Write("m.json", R"({"library_path": "x.so", "create_options": {"devices": 2}})");
  setenv("PJRT_NAMES_AND_LIBRARY_PATHS", ("a:/lib/a.so,broken,j:" + (root_ / "m.json").string()).c_str(), 1);
  const Discovery found = Discover();
  ASSERT_EQ(found.plugins.size(), 2u);
  EXPECT_EQ(found.plugins[0].library, "/lib/a.so");
  EXPECT_EQ(found.plugins[1].name, "j");
  EXPECT_EQ(found.plugins[1].create_options.at(0).FormatValue(), "2");
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_THAT(found.problems[0].message(), HasSubstr("'broken' is not name:path"));
}

TEST_F(DiscoveryTest, ReadsManifests) {
  Write("XDG_CONFIG_HOME/backplane/plugins.d/one.json",
        R"({"library_path": "../lib/one.so", "create_options": {"s": "x", "n": 3, "b": true, "f": 0.5, "l": [1, 2]}})");
  Write("own/two.json", R"({"name": "second", "library_path": "/abs/two.so"})");
  Write("own/bad.json", R"({"library_path": 3})");
  Write("own/worse.json", "{");
  Write("own/readme.txt", "not a manifest");
  setenv("BACKPLANE_PLUGIN_PATH", (root_ / "own").c_str(), 1);
  const Discovery found = Discover();
  ASSERT_EQ(found.plugins.size(), 2u);
  EXPECT_EQ(found.plugins[0].name, "second");
  EXPECT_EQ(found.plugins[0].library, "/abs/two.so");
  EXPECT_EQ(found.plugins[1].name, "one");
  EXPECT_EQ(found.plugins[1].library, (root_ / "XDG_CONFIG_HOME/backplane/lib/one.so").string());
  ASSERT_EQ(found.plugins[1].create_options.size(), 5u);
  EXPECT_EQ(found.plugins[1].create_options[4].FormatValue(), "[1, 2]");
  ASSERT_EQ(found.problems.size(), 2u);
  EXPECT_THAT(found.problems[0].message(), AllOf(HasSubstr("bad.json"), HasSubstr("expected a string library_path")));
  EXPECT_THAT(found.problems[1].message(), AllOf(HasSubstr("worse.json"), HasSubstr("line 1 column 2")));
}

TEST_F(DiscoveryTest, MoreFoldersComeLastAndNothingTwice) {
  Write("named/a.json", R"({"library_path": "a.so"})");
  Write("own/b.json", R"({"library_path": "b.so"})");
  setenv("BACKPLANE_PLUGIN_PATH", (root_ / "named").c_str(), 1);
  DiscoveryOptions options;
  options.manifest_folders = {(root_ / "own").string(), (root_ / "own/../named").string(), (root_ / "none").string()};
  std::vector<std::string> names;
  for (const FoundPlugin& plugin : Discover(options).plugins) names.push_back(plugin.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(FindManifestsOfThisProgram().empty()) << "a test has nothing installed beside it";
}

TEST_F(DiscoveryTest, FindsWheels) {
  const std::string site = "env/lib/python3.11/site-packages/";
  auto copy = [&](const std::string& to) {
    std::filesystem::create_directories((root_ / to).parent_path());
    std::filesystem::copy_file(Fake("newer"), root_ / to);
  };
  // An entry point; a namespace folder without one; libtpu; a library outside the module; and files that are no
  // plugins.
  copy(site + "jax_plugins/xla_one/one.so");
  Write(site + "one-1.0.dist-info/entry_points.txt",
        "[console_scripts]\nx = y:z\n[jax_plugins]\none = jax_plugins.xla_one\n");
  copy(site + "jax_plugins/loose/loose.so");
  copy(site + "libtpu/libtpu.so");
  Write(site + "libtpu-0.1.dist-info/RECORD", "libtpu/__init__.py,,\nlibtpu/libtpu.so,sha256=x,1\n");
  copy(site + "vendor/bin/vendor.so");
  Write(site + "vendor-2.dist-info/entry_points.txt", "[jax_plugins]\nvendor = vendor_jax:initialize\n");
  Write(site + "vendor-2.dist-info/RECORD",
        "vendor/bin/vendor.so,sha256=x,1\nvendor/ext.cpython-311-x86_64-linux-gnu.so,,\n");
  Write(site + "jax_plugins/xla_one/decoy.so", "text");
  copy(site + "other_host/pjrt_c_api_plugin.so");
  Write(site + "other-3.dist-info/RECORD", "other_host/pjrt_c_api_plugin.so,sha256=x,1\n");
  DiscoveryOptions options;
  options.python_prefixes = {(root_ / "env").string()};
  const Discovery found = Discover(options);
  std::vector<std::string> names;
  for (const FoundPlugin& plugin : found.plugins) names.push_back(plugin.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("one", "loose", "tpu", "vendor", "other_host"));
  EXPECT_TRUE(found.problems.empty());
  EXPECT_EQ(FindPlugin("vendor", options).value().library, (root_ / site / "vendor/bin/vendor.so").string());
  const absl::Status none = FindPlugin("nothing", options).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(none.message(), HasSubstr("vendor"));
  EXPECT_EQ(FindPlugin("./x.so", options).value().source, "path");
}

TEST(NamedValueTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(std::get<int64_t>(ParseNamedValue("a=-3").value().value), -3);
  EXPECT_EQ(std::get<bool>(ParseNamedValue("a=true").value().value), true);
  EXPECT_EQ(std::get<float>(ParseNamedValue("a=.25").value().value), 0.25f);
  EXPECT_EQ(std::get<std::string>(ParseNamedValue("a='3'").value().value), "3");
  EXPECT_EQ(std::get<std::string>(ParseNamedValue("a=inf").value().value), "inf");
  EXPECT_EQ(std::get<std::vector<int64_t>>(ParseNamedValue("a=[1, 2]").value().value).size(), 2u);
  EXPECT_FALSE(ParseNamedValue("nothing").ok());
  EXPECT_FALSE(ParseNamedValue("=3").ok());
  EXPECT_FALSE(ParseNamedValue("a=[x]").ok());
}

TEST(NamedValueTest, IsReadAsItWasWritten) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const NamedValue& value :
       {NamedValue("a", 1.0f), NamedValue("a", 0.123456789f), NamedValue("a", -3e30f), NamedValue("a", -infinity),
        NamedValue("a", 16777216.0f), NamedValue("a", "4"), NamedValue("a", "\"x\""), NamedValue("a", ""),
        NamedValue("a", true), NamedValue("a", int64_t{1}), NamedValue("a", std::vector<int64_t>{1, -2}),
        NamedValue("a", std::vector<int64_t>())}) {
    const absl::StatusOr<NamedValue> read = ParseNamedValue(value.FormatForParsing());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->value, value.value) << value.FormatForParsing();
  }
}

TEST(JsonTest, ReadsAndWrites) {
  const std::string text = R"({"a": [1, -2.5, true, null], "b": "q\"\\\u00e9\ud83d\ude00\n", "c": {}, "d": []})";
  absl::StatusOr<Json> value = Json::Parse(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value->Find("b")->string(), "q\"\\\xC3\xA9\xF0\x9F\x98\x80\n");
  EXPECT_EQ(Json::Parse(value->Text()).value().Text(), value->Text());
  EXPECT_EQ(Json::Parse(value->Text(2)).value().Text(), value->Text());
  EXPECT_EQ(Json(0.1).Text(), "0.1");
  EXPECT_EQ(Json(absl::string_view("\xff", 1)).Text(), "\"\\ufffd\"");
  for (const char* bad :
       {"", "{", "[1,]", "{\"a\" 1}", "01", "1.", "\"\\x\"", "\"\\ud800\"", "nul", "1 2", "\"\x01\"", "-", "{1:2}"}) {
    EXPECT_FALSE(Json::Parse(bad).ok()) << bad;
  }
  EXPECT_FALSE(Json::Parse(std::string(100000, '[')).ok());
}

}  // namespace
}  // namespace backplane::host
