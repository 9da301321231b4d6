// Modules, launches, faults and errors of the device in libhipemu.
#include <elf.h>
#include <cstring>
#include <numeric>

#include "plugins/hip/emulated_runtime/testing/emulated_testing.h"

namespace backplane::hip {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmulatedModuleTest : public EmulatedTest {
 protected:
  std::vector<float> Read(void* memory, size_t elements) {
    std::vector<float> values(elements);
    EXPECT_HIP(api_.hipMemcpyDtoHAsync(values.data(), memory, elements * sizeof(float), nullptr));
    return values;
  }
  void* Upload(const std::vector<float>& values) {
    void* memory = Allocate(values.size() * sizeof(float));
    EXPECT_HIP(
        api_.hipMemcpyHtoDAsync(memory, const_cast<float*>(values.data()), values.size() * sizeof(float), nullptr));
    EXPECT_HIP(api_.hipDeviceSynchronize());
    return memory;
  }
};

TEST_F(EmulatedModuleTest, RunsHostImages) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  void* memory = Upload(values);
  void* doubled = Allocate(4000);
  hipStream_t stream = NewStream();
  ASSERT_HIP(Launch(Kernel("add_one"), 16, 64, stream, Array{memory, 1000}));
  ASSERT_HIP(Launch(Kernel("twice"), 16, 64, stream, TwoArrays{doubled, memory, 1000}));
  EXPECT_HIP(api_.hipStreamSynchronize(stream));
  for (float& value : values) value = 2 * (value + 1);
  EXPECT_EQ(Read(doubled, 1000), values);
}

TEST_F(EmulatedModuleTest, EachBlockRunsOnceWithMemoryOfItsOwn) {
  for (const char* threads : {"1", "2"}) {
    Start({{"HIPEMU_THREADS", threads}});
    for (uint32_t blocks : {1u, 7u, 8u, 301u}) {
      void* memory = Allocate(blocks * 4);
      ASSERT_HIP(Launch(Kernel("block_numbers"), blocks, 32, nullptr, memory));
      std::vector<uint32_t> numbers(blocks);
      EXPECT_HIP(api_.hipMemcpyDtoHAsync(numbers.data(), memory, blocks * 4, nullptr));
      for (uint32_t i = 0; i < blocks; ++i) EXPECT_EQ(numbers[i], i * 1000 + blocks);
    }
  }
}

// Launches on several streams at once share the second thread of the device.
TEST_F(EmulatedModuleTest, LaunchesOfSeveralStreamsShareTheSecondThread) {
  constexpr size_t kStreams = 3, kElements = 64 * 40;
  hipFunction_t add = Kernel("add_one");
  std::vector<void*> memory;
  std::vector<hipStream_t> streams;
  for (size_t s = 0; s < kStreams; ++s) {
    streams.push_back(NewStream());
    memory.push_back(Allocate(kElements * 4));
    ASSERT_HIP(api_.hipMemsetD8Async(memory[s], 0, kElements * 4, streams[s]));
  }
  for (int round = 0; round < 50; ++round) {
    for (size_t s = 0; s < kStreams; ++s) ASSERT_HIP(Launch(add, 40, 64, streams[s], Array{memory[s], kElements}));
  }
  ASSERT_HIP(api_.hipDeviceSynchronize());
  for (size_t s = 0; s < kStreams; ++s) EXPECT_EQ(Read(memory[s], kElements), std::vector<float>(kElements, 50.0f));
}

TEST_F(EmulatedModuleTest, TellsAttributesAndOccupancy) {
  hipFunction_t kernel = Kernel("block_numbers");
  int value = 0;
  EXPECT_HIP(api_.hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel));
  EXPECT_EQ(value, 1024);
  EXPECT_HIP(api_.hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel));
  EXPECT_EQ(value, 32);
  EXPECT_HIP(api_.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&value, kernel, 32, 31 * 1024));
  EXPECT_EQ(value, 2);  // of 32 KiB each
  int threads = 0;
  EXPECT_HIP(api_.hipModuleOccupancyMaxPotentialBlockSize(&value, &threads, kernel, 0, 0));
  EXPECT_EQ(threads, 32);
  EXPECT_EQ(value, 32 * 304);
}

TEST_F(EmulatedModuleTest, FindsVariables) {
  const std::string image = ReadFileBytes(HIPEMU_HOST_KERNELS);
  hipModule_t module = nullptr;
  ASSERT_HIP(api_.hipModuleLoadData(&module, image.data()));
  hipDeviceptr_t address = nullptr;
  size_t bytes = 0;
  ASSERT_HIP(api_.hipModuleGetGlobal(&address, &bytes, module, "host_table"));
  EXPECT_EQ(bytes, 16u);
  std::vector<int> values(4);
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(values.data(), address, 16, nullptr));
  EXPECT_THAT(values, ElementsAre(3, 1, 4, 1));
  EXPECT_HIP_ERROR(api_.hipMemcpyDtoHAsync(values.data(), address, 20, nullptr), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(api_.hipModuleGetGlobal(&address, &bytes, module, "other"), hipErrorNotFound);
  // A second module has its own.
  hipModule_t second = nullptr;
  ASSERT_HIP(api_.hipModuleLoadData(&second, image.data()));
  hipDeviceptr_t other = nullptr;
  ASSERT_HIP(api_.hipModuleGetGlobal(&other, &bytes, second, "host_table"));
  EXPECT_NE(other, address);
  EXPECT_HIP(api_.hipModuleUnload(second));
  EXPECT_HIP_ERROR(api_.hipMemcpyDtoHAsync(values.data(), other, 16, nullptr), hipErrorInvalidValue);
}

TEST_F(EmulatedModuleTest, RefusesWhatIsNoImage) {
  hipModule_t module = nullptr;
  std::string text(256, 'x');
  EXPECT_HIP_ERROR(api_.hipModuleLoadData(&module, text.data()), hipErrorInvalidImage);
  EXPECT_HIP_ERROR(api_.hipModuleLoadData(&module, nullptr), hipErrorInvalidValue);
  std::string image = ReadFileBytes(HIPEMU_HOST_KERNELS);
  image[offsetof(Elf64_Ehdr, e_machine)] = 40;
  EXPECT_HIP_ERROR(api_.hipModuleLoadData(&module, image.data()), hipErrorNoBinaryForGpu);
  const std::string library = ReadFileBytes(HIPEMU_LIBRARY);  // for this machine, without kernels
  EXPECT_HIP_ERROR(api_.hipModuleLoadData(&module, library.data()), hipErrorInvalidImage);
  EXPECT_THAT(FormatReport(), HasSubstr("exports backplane_host_kernels"));
  hipFunction_t function = nullptr;
  EXPECT_HIP_ERROR(api_.hipModuleGetFunction(&function, module, "add_one"), hipErrorInvalidHandle);
}

TEST_F(EmulatedModuleTest, UnloadedModulesEndTheirFunctions) {
  const std::string image = ReadFileBytes(HIPEMU_HOST_KERNELS);
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr, missing = nullptr;
  ASSERT_HIP(api_.hipModuleLoadData(&module, image.data()));
  EXPECT_HIP(api_.hipModuleGetFunction(&function, module, "add_one"));
  EXPECT_HIP_ERROR(api_.hipModuleGetFunction(&missing, module, "add_two"), hipErrorNotFound);
  EXPECT_HIP(api_.hipModuleUnload(module));
  EXPECT_HIP_ERROR(Launch(function, 1, 64, nullptr, Array{Allocate(4), 1}), hipErrorInvalidHandle);
  EXPECT_THAT(FormatReport(), HasSubstr("freed handle: function"));
}

TEST_F(EmulatedModuleTest, ChecksLimitsOfLaunches) {
  hipFunction_t kernel = Kernel("add_one");
  void* memory = Allocate(256);
  const Array array{memory, 64};
  EXPECT_HIP_ERROR(Launch(kernel, 1, 32, nullptr, array), hipErrorInvalidConfiguration);
  EXPECT_THAT(FormatReport(), HasSubstr("a block of 32 threads is not the one of 64"));
  EXPECT_HIP_ERROR(Launch(kernel, 1, 2048, nullptr, array), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(Launch(kernel, 0, 64, nullptr, array), hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(Launch(kernel, 1u << 27, 64, nullptr, array), hipErrorInvalidConfiguration);
  size_t bytes = sizeof array;
  Array copy = array;
  void* extra[] = {kLaunchParamBufferPointer, &copy, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
  EXPECT_HIP_ERROR(api_.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 65537, nullptr, nullptr, extra),
                   hipErrorInvalidConfiguration);
  EXPECT_HIP_ERROR(Launch(kernel, 1, 64, nullptr, memory), hipErrorInvalidValue);  // 8 of 16 bytes
  EXPECT_THAT(FormatReport(), HasSubstr("the buffer has 8 bytes of arguments and the kernel takes 16"));
  void* parameters[] = {&copy.data, &copy.elements};
  EXPECT_HIP_ERROR(api_.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr),
                   hipErrorInvalidValue);
  EXPECT_THAT(FormatReport(), HasSubstr("must be passed in a buffer"));
  EXPECT_HIP(api_.hipDeviceSynchronize());
}

TEST_F(EmulatedModuleTest, KernelsBelongToADevice) {
  hipFunction_t kernel = Kernel("add_one");
  EXPECT_HIP(api_.hipSetDevice(1));
  EXPECT_HIP_ERROR(Launch(kernel, 1, 64, nullptr, Array{Allocate(256), 64}), hipErrorInvalidHandle);
  EXPECT_THAT(FormatReport(), HasSubstr("loaded on device 0 and the launch is on the null stream of device 1"));
}

TEST_F(EmulatedModuleTest, FindsUseAfterFreeInArguments) {
  void* memory = Allocate(256);
  EXPECT_HIP(api_.hipFree(memory));
  EXPECT_HIP(Launch(Kernel("add_one"), 1, 64, nullptr, Array{memory, 64}));  // is found when it runs
  EXPECT_HIP_ERROR(api_.hipDeviceSynchronize(), hipErrorIllegalAddress);
  EXPECT_THAT(FormatReport(),
              HasSubstr("at byte 0 of its arguments lies in allocation 1 of 256 bytes, which was freed"));
  // The error stays until the reset.
  void* other = nullptr;
  EXPECT_HIP_ERROR(api_.hipMalloc(&other, 16), hipErrorIllegalAddress);
  EXPECT_HIP_ERROR(api_.hipStreamSynchronize(nullptr), hipErrorIllegalAddress);
  EXPECT_HIP(api_.hipSetDevice(1));  // other devices go on
  EXPECT_HIP(api_.hipMalloc(&other, 16));
  EXPECT_HIP(api_.hipSetDevice(0));
  EXPECT_HIP(api_.hipDeviceReset());
  EXPECT_HIP(api_.hipMalloc(&other, 16));
}

TEST_F(EmulatedModuleTest, FindsKernelsThatWriteBehindTheEnd) {
  void* memory = Allocate(64);
  EXPECT_HIP(Launch(Kernel("write_behind"), 1, 1, nullptr, Array{memory, 16}));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_THAT(FormatReport(), HasSubstr("out of bounds: byte 64 of allocation 1, which has 64 bytes"));
}

TEST_F(EmulatedModuleTest, KernelsNeedPeerAccess) {
  hipFunction_t kernel = Kernel("add_one");
  EXPECT_HIP(api_.hipSetDevice(1));
  void* there = Allocate(256);
  EXPECT_HIP(api_.hipMemsetD8Async(there, 0, 256, nullptr));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_HIP(api_.hipSetDevice(0));
  EXPECT_HIP(api_.hipDeviceEnablePeerAccess(1, 0));
  EXPECT_HIP(Launch(kernel, 1, 64, nullptr, Array{there, 64}));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_HIP(api_.hipDeviceDisablePeerAccess(1));
  EXPECT_HIP(Launch(kernel, 1, 64, nullptr, Array{there, 64}));
  EXPECT_HIP_ERROR(api_.hipDeviceSynchronize(), hipErrorIllegalAddress);
  EXPECT_THAT(FormatReport(), HasSubstr("to which device 0 has no access"));
}

TEST_F(EmulatedModuleTest, InjectsFaults) {
  SetFault("hipMalloc", 2);
  void* memory = Allocate(16);
  void* other = nullptr;
  EXPECT_HIP_ERROR(api_.hipMalloc(&other, 16), hipErrorOutOfMemory);
  EXPECT_HIP(api_.hipMalloc(&other, 16));
  SetFault("hipMalloc", 1, hipErrorNotSupported);
  EXPECT_HIP_ERROR(api_.hipMalloc(&other, 16), hipErrorNotSupported);
  SetFault("hipMalloc", 1);
  SetFault("hipMalloc", 0);
  EXPECT_HIP(api_.hipMalloc(&other, 16));
  // A kernel that fails: the launch succeeds, the work does not.
  SetFault("hipModuleLaunchKernel", 1, hipErrorLaunchFailure);
  EXPECT_HIP(Launch(Kernel("add_one"), 1, 64, nullptr, Array{memory, 4}));
  EXPECT_HIP_ERROR(api_.hipDeviceSynchronize(), hipErrorLaunchFailure);
  EXPECT_EQ(Own<HipemuCallCount>("hipemuCallCount")("hipModuleLaunchKernel"), 1);
}

TEST_F(EmulatedModuleTest, ReadsFaultsFromTheEnvironment) {
  Start({{"HIPEMU_FAIL", "hipMalloc:3,hipMalloc:4:801"}});
  void* memory = nullptr;
  EXPECT_HIP(api_.hipMalloc(&memory, 16));
  EXPECT_HIP(api_.hipMalloc(&memory, 16));
  EXPECT_HIP_ERROR(api_.hipMalloc(&memory, 16), hipErrorOutOfMemory);
  EXPECT_HIP_ERROR(api_.hipMalloc(&memory, 16), hipErrorNotSupported);
  EXPECT_HIP(api_.hipMalloc(&memory, 16));
}

TEST_F(EmulatedModuleTest, CallbacksLearnOfErrors) {
  SetFault("hipMemsetD8Async", 1, hipErrorIllegalAddress);
  hipStream_t stream = NewStream();
  std::atomic<int> error{-1};
  std::atomic<bool> ran{false};
  EXPECT_HIP(api_.hipMemsetD8Async(Allocate(16), 0, 16, stream));
  const auto store = [](hipStream_t, hipError_t status, void* data) {
    static_cast<std::atomic<int>*>(data)->store(status);
  };
  if (api_.hipStreamAddCallback(stream, store, &error, 0) == hipSuccess) {  // unless the fill was faster
    while (error.load() < 0) std::this_thread::yield();
    EXPECT_EQ(error.load(), hipErrorIllegalAddress);
  }
  // Host functions are not run on a device that failed.
  (void)api_.hipLaunchHostFunc(
      stream, [](void* data) { static_cast<std::atomic<bool>*>(data)->store(true); }, &ran);
  EXPECT_HIP_ERROR(api_.hipStreamSynchronize(stream), hipErrorIllegalAddress);
  EXPECT_FALSE(ran.load());
}

}  // namespace
}  // namespace backplane::hip
