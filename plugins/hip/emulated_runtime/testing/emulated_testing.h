// What tests of libhipemu share: the library opened as a plugin does, with settings, and its report.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_TESTING_EMULATED_TESTING_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_TESTING_EMULATED_TESTING_H_

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/emulated_runtime/hipemu.h"
#include "plugins/hip/runtime/open_runtime.h"

namespace backplane::hip {

#define EXPECT_HIP(call) EXPECT_STREQ(GetErrorName(call), "hipSuccess") << #call << "\n" << this->FormatReport()
#define ASSERT_HIP(call) ASSERT_STREQ(GetErrorName(call), "hipSuccess") << #call << "\n" << this->FormatReport()
#define EXPECT_HIP_ERROR(call, error) EXPECT_STREQ(GetErrorName(call), GetErrorName(error)) << #call

// Each test has a runtime of its own, with default settings unless it calls Start.
class EmulatedTest : public ::testing::Test {
 protected:
  using Variables = std::map<std::string, std::string>;

  void SetUp() override { Start({}); }

  void TearDown() override {
    if (library_ == nullptr) return;
    Own<HipemuShutdown>("hipemuShutdown")();
    Own<HipemuClearReport>("hipemuClearReport")();
    ClearVariables();
  }

  // Begins again with the variables set and opens the runtime.
  void Start(const Variables& variables) {
    if (library_ == nullptr) library_ = dlopen(HIPEMU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    Own<HipemuShutdown>("hipemuShutdown")();
    Own<HipemuClearReport>("hipemuClearReport")();
    ClearVariables();
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
      variables_.push_back(name);
    }
    absl::StatusOr<HipApi> opened = OpenRuntime({PlatformChoice::kEmulated, HIPEMU_LIBRARY});
    status_ = opened.status();
    if (!opened.ok()) return;
    api_ = *opened;
    ASSERT_EQ(api_.hipSetDevice(0), hipSuccess);
    api_.hipGetLastError();
  }

  template <typename Function>
  Function Own(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  // What was found wrong, without what is not freed.
  std::string FormatReport() {
    std::string text(FullReport());
    const size_t leaks = std::min(text.find("not freed"), text.find("not destroyed"));
    return leaks == std::string::npos ? text : text.substr(0, leaks);
  }
  std::string FullReport() {
    const auto report = Own<HipemuReport>("hipemuReport");
    std::string text(report(nullptr, 0), '\0');
    report(text.data(), text.size() + 1);
    return text;
  }
  void SetFault(const char* function, int64_t n, int error = 0) {
    ASSERT_EQ(Own<HipemuSetFault>("hipemuSetFault")(function, n, error), hipSuccess);
  }

  void* Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_HIP(api_.hipMalloc(&memory, bytes));
    return memory;
  }
  template <typename T>
  T* AllocatePinned(size_t elements) {
    void* memory = nullptr;
    EXPECT_HIP(api_.hipHostMalloc(&memory, elements * sizeof(T), kHostMallocDefault));
    return static_cast<T*>(memory);
  }
  hipStream_t NewStream(unsigned flags = kStreamNonBlocking) {
    hipStream_t stream = nullptr;
    EXPECT_HIP(api_.hipStreamCreateWithFlags(&stream, flags));
    return stream;
  }
  hipEvent_t NewEvent(unsigned flags = kEventDisableTiming) {
    hipEvent_t event = nullptr;
    EXPECT_HIP(api_.hipEventCreateWithFlags(&event, flags));
    return event;
  }

  static std::string ReadFileBytes(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // A kernel of testing/host_kernels.cc, whose module is loaded on the current device by the first call.
  hipFunction_t Kernel(const char* name) {
    int device = 0;
    EXPECT_HIP(api_.hipGetDevice(&device));
    hipModule_t& module = modules_[device];
    if (module == nullptr) {
      const std::string image = ReadFileBytes(HIPEMU_HOST_KERNELS);
      EXPECT_HIP(api_.hipModuleLoadData(&module, image.data()));
    }
    hipFunction_t function = nullptr;
    EXPECT_HIP(api_.hipModuleGetFunction(&function, module, name));
    return function;
  }

  // Launches with the bytes of `arguments` in the extra form.
  template <typename Arguments>
  hipError_t Launch(hipFunction_t function, unsigned blocks, unsigned threads, hipStream_t stream,
                    const Arguments& arguments) {
    Arguments copy = arguments;
    size_t bytes = sizeof copy;
    void* extra[] = {kLaunchParamBufferPointer, &copy, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
    return api_.hipModuleLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, nullptr, extra);
  }

  struct Array {
    void* data;
    uint64_t elements;
  };
  struct TwoArrays {
    void* to;
    void* from;
    uint64_t elements;
  };

  HipApi api_;
  absl::Status status_;
  void* library_ = nullptr;

 private:
  void ClearVariables() {
    for (const std::string& name : variables_) unsetenv(name.c_str());
    variables_.clear();
    modules_.clear();
  }
  std::vector<std::string> variables_;
  std::map<int, hipModule_t> modules_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_TESTING_EMULATED_TESTING_H_
