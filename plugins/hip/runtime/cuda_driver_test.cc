// HIP's functions over a driver of CUDA, which is a fake one here: what it is called with, and what becomes of results.
#include "plugins/hip/runtime/cuda_driver.h"

#include <dlfcn.h>

#include <cstring>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/runtime/open_runtime.h"

namespace backplane::hip::cuda {
namespace {

using ::testing::HasSubstr;

class CudaDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<HipApi> opened = OpenRuntime({PlatformChoice::kNvidia, HIP_FAKE_CUDA_LIBRARY});
    ASSERT_TRUE(opened.ok()) << opened.status();
    api_ = *opened;
    library_ = dlopen(HIP_FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    Function<void()>("fakeCudaClearLog")();
    ASSERT_EQ(api_.hipSetDevice(0), hipSuccess);
  }
  template <typename Signature>
  Signature* Function(const char* name) {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }
  std::string Log() { return Function<const char*()>("fakeCudaLog")(); }
  HipApi api_;
  void* library_ = nullptr;
};

TEST_F(CudaDriverTest, OpensAsNvidia) {
  EXPECT_EQ(api_.platform, Platform::kNvidia);
  EXPECT_EQ(api_.device_count, 2);
  EXPECT_EQ(api_.runtime_version, 12040);
  EXPECT_TRUE(api_.features.launch_host_func);
  EXPECT_TRUE(api_.features.shared_memory_opt_in);
  EXPECT_TRUE(api_.features.graph_copy_updates);
  EXPECT_EQ(*GetArchitecture(api_, 1), "sm_90");
  int value = 0;
  EXPECT_EQ(api_.hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0), hipSuccess);
  EXPECT_EQ(value, 32);
  EXPECT_EQ(api_.hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0), hipSuccess);
  EXPECT_EQ(value, 1016);
  EXPECT_EQ(api_.hipDeviceGetAttribute(&value, hipDeviceAttributeFineGrainSupport, 0), hipErrorInvalidValue);
  EXPECT_EQ(api_.hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 5), hipErrorInvalidDevice);
}

TEST_F(CudaDriverTest, EachThreadHasItsDevice) {
  void* memory = nullptr;
  ASSERT_EQ(api_.hipSetDevice(1), hipSuccess);
  ASSERT_EQ(api_.hipMalloc(&memory, 64), hipSuccess);
  EXPECT_THAT(Log(), HasSubstr("allocate 64 on 1"));
  EXPECT_EQ(api_.hipFree(memory), hipSuccess);
  std::thread([&] {  // begins with device 0 and no context
    int device = -1;
    EXPECT_EQ(api_.hipGetDevice(&device), hipSuccess);
    EXPECT_EQ(device, 0);
    void* other = nullptr;
    EXPECT_EQ(api_.hipMalloc(&other, 96), hipSuccess);
    EXPECT_EQ(api_.hipFree(other), hipSuccess);
  })
      .join();
  EXPECT_THAT(Log(), HasSubstr("allocate 96 on 0"));
  EXPECT_EQ(api_.hipSetDevice(2), hipErrorInvalidDevice);
}

TEST_F(CudaDriverTest, RestoresAContextThatOthersChanged) {
  GetDriver().cuCtxSetCurrent(nullptr);
  Function<void()>("fakeCudaClearLog")();
  void* memory = nullptr;
  ASSERT_EQ(api_.hipMalloc(&memory, 32), hipSuccess);
  EXPECT_EQ(Log(), "current 0\nallocate 32 on 0\n");
  EXPECT_EQ(api_.hipFree(memory), hipSuccess);
}

TEST_F(CudaDriverTest, EmptyAllocationsAndCopiesSucceedAsInHip) {
  void* memory = &memory;
  EXPECT_EQ(api_.hipMalloc(&memory, 0), hipSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(api_.hipFree(nullptr), hipSuccess);
  EXPECT_EQ(api_.hipMemcpyHtoDAsync(nullptr, nullptr, 0, nullptr), hipSuccess);
}

TEST_F(CudaDriverTest, ErrorsAreHipsAndAreRemembered) {
  void* memory = nullptr;
  EXPECT_EQ(api_.hipMalloc(&memory, size_t{1} << 40), hipErrorOutOfMemory);
  EXPECT_EQ(api_.hipPeekAtLastError(), hipErrorOutOfMemory);
  EXPECT_EQ(api_.hipGetLastError(), hipErrorOutOfMemory);
  EXPECT_EQ(api_.hipGetLastError(), hipSuccess);
  int word = 0;
  Function<void(int)>("fakeCudaFail")(716);
  EXPECT_EQ(api_.hipMemcpyHtoDAsync(&word, &word, sizeof word, nullptr), hipErrorIllegalAddress);
}

TEST_F(CudaDriverTest, MapsResults) {
  EXPECT_EQ(ToHipError(0), hipSuccess);
  EXPECT_EQ(ToHipError(2), hipErrorOutOfMemory);
  EXPECT_EQ(ToHipError(700), hipErrorIllegalAddress);
  EXPECT_EQ(ToHipError(222), hipErrorNoBinaryForGpu);
  EXPECT_EQ(ToHipError(803), hipErrorInsufficientDriver);
  EXPECT_EQ(ToHipError(715), hipErrorLaunchFailure);
  EXPECT_EQ(ToHipError(909), hipErrorLaunchTimeOut);
  EXPECT_EQ(ToHipError(77777), hipErrorUnknown);
}

TEST_F(CudaDriverTest, LaunchPassesTheBufferOfArguments) {
  struct {
    int first = 17;
    int second = 4;
  } arguments;
  size_t bytes = sizeof arguments;
  void* extra[] = {kLaunchParamBufferPointer, &arguments, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
  EXPECT_EQ(api_.hipModuleLaunchKernel(nullptr, 3, 2, 1, 128, 1, 1, 512, nullptr, nullptr, extra), hipSuccess);
  EXPECT_THAT(Log(), HasSubstr("launch 3 2 1, 128 threads, 512 shared, 8 bytes, first 17, no parameters"));
  hipKernelNodeParams node;
  node.gridDim = {7, 1, 1};
  node.blockDim = {64, 1, 1};
  node.extra = extra;
  hipGraphNode_t made = nullptr;
  EXPECT_EQ(api_.hipGraphAddKernelNode(&made, nullptr, nullptr, 0, &node), hipSuccess);
  EXPECT_THAT(Log(), HasSubstr("kernel node 7 x 64, 0 before, end 0"));
}

TEST_F(CudaDriverTest, CopiesBetweenDevicesNameTheirContexts) {
  EXPECT_EQ(api_.hipMemcpyPeerAsync(&api_, 1, &api_, 0, 48, nullptr), hipSuccess);
  EXPECT_THAT(Log(), HasSubstr("peer 0 to 1, 48 bytes"));
}

TEST_F(CudaDriverTest, CopyNodesNameTheKindsOfMemory) {
  hipGraphNode_t node = nullptr;
  EXPECT_EQ(api_.hipGraphAddMemcpyNode1D(&node, nullptr, nullptr, 0, &node, &node, 80, hipMemcpyHostToDevice),
            hipSuccess);
  EXPECT_THAT(Log(), HasSubstr("copy node from 1 to 2, 80 x 1 x 1, device 0"));
  EXPECT_EQ(api_.hipGraphAddMemcpyNode1D(&node, nullptr, nullptr, 0, &node, &node, 8, hipMemcpyDefault), hipSuccess);
  EXPECT_THAT(Log(), HasSubstr("copy node from 4 to 4, 8 x 1 x 1"));
}

TEST_F(CudaDriverTest, CallbacksGetHipsErrors) {
  hipError_t got = hipSuccess;
  EXPECT_EQ(
      api_.hipStreamAddCallback(
          nullptr, [](hipStream_t, hipError_t error, void* data) { *static_cast<hipError_t*>(data) = error; }, &got, 0),
      hipSuccess);
  EXPECT_EQ(got, hipErrorIllegalAddress);
}

}  // namespace
}  // namespace backplane::hip::cuda
