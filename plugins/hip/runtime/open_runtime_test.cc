#include "plugins/hip/runtime/open_runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sets variables for a test and removes them after it.
class OpenRuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  void Clear() {
    for (const char* name : {"BACKPLANE_HIP_LIBRARY", "FAKE_HIP_INIT", "FAKE_HIP_COUNT", "FAKE_HIP_DEVICES"}) {
      unsetenv(name);
    }
  }
  absl::StatusOr<HipApi> OpenFake() { return OpenRuntime({PlatformChoice::kAmd, HIP_FAKE_LIBRARY}); }
};

TEST_F(OpenRuntimeTest, ParsesPlatforms) {
  EXPECT_EQ(*ParsePlatform("auto"), PlatformChoice::kAuto);
  EXPECT_EQ(*ParsePlatform("emulated"), PlatformChoice::kEmulated);
  EXPECT_EQ(ParsePlatform("rocm").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenRuntimeTest, SaysThatTheLibraryIsMissing) {
  const absl::Status status = OpenRuntime({PlatformChoice::kAmd, "/nowhere/libamdhip64.so"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/libamdhip64.so"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
}

TEST_F(OpenRuntimeTest, SaysThatAFileIsNoLibrary) {
  const absl::Status status = OpenRuntime({PlatformChoice::kAmd, BACKPLANE_SOURCE_DIR "/README.md"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("invalid ELF header"));
}

TEST_F(OpenRuntimeTest, NamesMissingFunctions) {
  const absl::Status status = OpenRuntime({PlatformChoice::kAmd, HIP_FAKE_CUDA_LIBRARY}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hipModuleLaunchKernel"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("HIP 5.2"));
  const absl::Status nvidia = OpenRuntime({PlatformChoice::kNvidia, HIP_FAKE_LIBRARY}).status();
  EXPECT_EQ(nvidia.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(nvidia.message()), HasSubstr("cuMemAlloc_v2"));
}

TEST_F(OpenRuntimeTest, FillsTheTable) {
  setenv("FAKE_HIP_DEVICES", "3", 1);
  const absl::StatusOr<HipApi> api = OpenFake();
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(api->platform, Platform::kAmd);
  EXPECT_EQ(api->device_count, 3);
  EXPECT_EQ(api->runtime_version, 60300000);
  EXPECT_EQ(api->library, HIP_FAKE_LIBRARY);
#define EXPECT_FILLED(name, result, parameters) EXPECT_NE(api->name, nullptr) << #name;
  BACKPLANE_HIP_REQUIRED(EXPECT_FILLED)
#undef EXPECT_FILLED
  // The fake has none of the optional functions.
  EXPECT_EQ(api->hipLaunchHostFunc, nullptr);
  EXPECT_FALSE(api->features.launch_host_func);
  EXPECT_FALSE(api->features.stream_ordered_memory);
  EXPECT_FALSE(api->features.graph_copy_updates);
}

TEST_F(OpenRuntimeTest, NoDeviceIsNotFound) {
  EXPECT_EQ(OpenFake().status().code(), absl::StatusCode::kNotFound);  // a count of 0
  for (const char* code : {"100", "101"}) {
    setenv("FAKE_HIP_INIT", code, 1);
    const absl::Status status = OpenFake().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("no device"));
  }
  setenv("FAKE_HIP_INIT", "0", 1);
  setenv("FAKE_HIP_COUNT", "100", 1);
  EXPECT_EQ(OpenFake().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(OpenRuntimeTest, OldDriversAreAFailedPrecondition) {
  setenv("FAKE_HIP_INIT", "35", 1);
  const absl::Status status = OpenFake().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too old"));
  setenv("FAKE_HIP_INIT", "999", 1);
  EXPECT_EQ(OpenFake().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OpenRuntimeTest, TheVariableNamesTheLibrary) {
  setenv("BACKPLANE_HIP_LIBRARY", HIP_FAKE_LIBRARY, 1);
  setenv("FAKE_HIP_DEVICES", "1", 1);
  EXPECT_EQ(OpenRuntime({PlatformChoice::kAmd})->library, HIP_FAKE_LIBRARY);
  EXPECT_EQ(OpenRuntime({PlatformChoice::kAuto})->library, HIP_FAKE_LIBRARY);
  setenv("FAKE_HIP_DEVICES", "0", 1);  // no other platform is tried
  const absl::Status status = OpenRuntime({PlatformChoice::kAuto}).status();
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("NVIDIA")));
}

TEST_F(OpenRuntimeTest, ALibraryNeedsAPlatform) {
  EXPECT_EQ(OpenRuntime({PlatformChoice::kAuto, HIP_FAKE_LIBRARY}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenRuntimeTest, TheEmulatedRuntimeIsBesideTheProgram) {
  // This program lies elsewhere, so the error shows where the library was looked for.
  const absl::StatusOr<HipApi> api = OpenRuntime({PlatformChoice::kEmulated});
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(api.status().message()), HasSubstr("plugins/libhipemu.so"));
}

// With Debian's libamdhip64 of version 5.2 this is its real behaviour on a machine without a GPU.
TEST_F(OpenRuntimeTest, InstalledAmdRuntimeWithoutDevice) {
  void* library = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "libamdhip64.so.5 is not installed";
  const absl::StatusOr<HipApi> api = OpenRuntime({PlatformChoice::kAmd, "libamdhip64.so.5"});
  if (api.ok()) GTEST_SKIP() << "this machine has an AMD GPU";
  EXPECT_EQ(api.status().code(), absl::StatusCode::kNotFound) << api.status();
  EXPECT_EQ(api.status().message(), "no device: libamdhip64.so.5 was opened but finds no AMD GPU on this machine");
}

}  // namespace
}  // namespace backplane::hip
