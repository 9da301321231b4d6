// libhipemu in the place of libamdhip64: opened by its names, and unloaded with work under way.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class UnloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "hipemu_report_" + std::to_string(getpid());
    setenv("HIPEMU_REPORT", path_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HIPEMU_REPORT");
    unlink(path_.c_str());
  }
  void Open() {
    library_ = dlopen(HIPEMU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <typename... Parameters, typename... Arguments>
  hipError_t CallByName(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<hipError_t (*)(Parameters...)>(dlsym(library_, name));
    if (function == nullptr) return hipErrorSharedObjectSymbolNotFound;
    return function(arguments...);
  }
  std::string WrittenReport() {
    std::ifstream file(path_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // Allocations, and fills that are not awaited.
  void UseWithoutCleaning() {
    void* memory = nullptr;
    hipStream_t stream = nullptr;
    ASSERT_EQ((CallByName<void**, size_t>("hipMalloc", &memory, size_t{1000})), hipSuccess);
    ASSERT_EQ((CallByName<hipStream_t*>("hipStreamCreate", &stream)), hipSuccess);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ((CallByName<void*, int, size_t, hipStream_t>("hipMemsetAsync", memory, i, size_t{1000}, stream)),
                hipSuccess);
    }
  }
  void* library_ = nullptr;
  std::string path_;
};

TEST_F(UnloadTest, CallsOfProgramsThatKnowOnlyHip) {
  Open();
  std::vector<unsigned char> host(64, 9), back(64);
  void* memory = nullptr;
  hipStream_t stream = nullptr;
  hipEvent_t event = nullptr;
  EXPECT_EQ((CallByName<void**, size_t>("hipMalloc", &memory, size_t{64})), hipSuccess);
  EXPECT_EQ((CallByName<hipStream_t*>("hipStreamCreate", &stream)), hipSuccess);
  EXPECT_EQ((CallByName<hipEvent_t*>("hipEventCreate", &event)), hipSuccess);
  EXPECT_EQ((CallByName<void*, const void*, size_t, hipMemcpyKind>("hipMemcpy", memory, host.data(), size_t{64},
                                                                   hipMemcpyHostToDevice)),
            hipSuccess);
  EXPECT_EQ((CallByName<void*, int, size_t, hipStream_t>("hipMemsetAsync", memory, 7, size_t{32}, stream)), hipSuccess);
  EXPECT_EQ((CallByName<void*, const void*, size_t, hipMemcpyKind, hipStream_t>("hipMemcpyAsync", back.data(), memory,
                                                                                size_t{64}, hipMemcpyDefault, stream)),
            hipSuccess);
  EXPECT_THAT(std::vector<unsigned char>(back.begin(), back.begin() + 32), Each(7));
  EXPECT_THAT(std::vector<unsigned char>(back.begin() + 32, back.end()), Each(9));
  EXPECT_EQ((CallByName<void*, const void*, size_t, hipMemcpyKind>("hipMemcpy", memory, host.data(), size_t{64},
                                                                   static_cast<hipMemcpyKind>(99))),
            hipErrorInvalidMemcpyDirection);
  EXPECT_EQ((CallByName<hipEvent_t>("hipEventDestroy", event)), hipSuccess);
  EXPECT_EQ((CallByName<hipStream_t>("hipStreamDestroy", stream)), hipSuccess);
  EXPECT_EQ((CallByName<void*>("hipFree", memory)), hipSuccess);
  auto* text = reinterpret_cast<const char* (*)(hipError_t)>(dlsym(library_, "hipGetErrorString"));
  ASSERT_NE(text, nullptr);
  EXPECT_STREQ(text(hipErrorOutOfMemory), "out of memory");
  EXPECT_EQ(dlclose(library_), 0);
  EXPECT_EQ(WrittenReport(), "");
}

TEST_F(UnloadTest, UnloadingStopsTheWorkAndWritesTheReport) {
  Open();
  UseWithoutCleaning();
  EXPECT_EQ(dlclose(library_), 0);
  EXPECT_THAT(WrittenReport(), HasSubstr("not freed: 1 allocations with 1000 bytes of device 0"));
  EXPECT_THAT(WrittenReport(), HasSubstr("not destroyed: 1 streams"));
}

TEST_F(UnloadTest, AProcessThatEndsWritesTheReport) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Open();
    UseWithoutCleaning();
    std::exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_THAT(WrittenReport(), HasSubstr("not freed: 1 allocations with 1000 bytes of device 0"));
}

}  // namespace
}  // namespace backplane::hip
