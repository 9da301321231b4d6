// Memory, copies, fills and peers of libhipemu.
#include <cstring>
#include <numeric>

#include "plugins/hip/emulated_runtime/testing/emulated_testing.h"

namespace backplane::hip {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class EmulatedMemoryTest : public EmulatedTest {};

TEST_F(EmulatedMemoryTest, OpensWithTheSettings) {
  EXPECT_EQ(api_.platform, Platform::kEmulated);
  EXPECT_EQ(api_.device_count, 2);
  EXPECT_EQ(*GetArchitecture(api_, 0), "gfx942");
  Start({{"HIPEMU_DEVICES", "5"}, {"HIPEMU_ARCH", "gfx1100"}, {"HIPEMU_MEMORY", "65536"}});
  EXPECT_EQ(api_.device_count, 5);
  EXPECT_EQ(*GetArchitecture(api_, 4), "gfx1100");
  int wave = 0;
  EXPECT_HIP(api_.hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, 0));
  EXPECT_EQ(wave, 32);
  size_t bytes = 0;
  EXPECT_HIP(api_.hipDeviceTotalMem(&bytes, 0));
  EXPECT_EQ(bytes, 65536u);
}

TEST_F(EmulatedMemoryTest, WrongSettingsAreNamed) {
  Start({{"HIPEMU_DEVICES", "many"}});
  EXPECT_EQ(status_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status_.message()), HasSubstr("HIPEMU_DEVICES is \"many\""));
  Start({{"HIPEMU_FAIL", "hipMalloc"}});
  EXPECT_THAT(std::string(status_.message()), HasSubstr("function:call"));
  Start({{"HIPEMU_DEVICES", "0"}});
  EXPECT_EQ(status_.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status_.message()), HasSubstr("no device"));
}

TEST_F(EmulatedMemoryTest, AllOptionalFunctionsButOne) {
#define EXPECT_FILLED(name, version, result, parameters) \
  EXPECT_EQ(api_.name == nullptr, std::string(#name) == "hipFuncSetAttribute") << #name;
  BACKPLANE_HIP_OPTIONAL(EXPECT_FILLED)
#undef EXPECT_FILLED
}

TEST_F(EmulatedMemoryTest, RunsOutOfMemory) {
  Start({{"HIPEMU_MEMORY", "1048576"}});
  void* all = Allocate(1 << 20);
  void* more = nullptr;
  EXPECT_HIP_ERROR(api_.hipMalloc(&more, 1), hipErrorOutOfMemory);
  EXPECT_EQ(more, nullptr);
  EXPECT_HIP_ERROR(api_.hipGetLastError(), hipErrorOutOfMemory);
  size_t free = 1, total = 0;
  EXPECT_HIP(api_.hipMemGetInfo(&free, &total));
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_HIP(api_.hipFree(all));
  EXPECT_HIP(api_.hipMalloc(&more, 1));
  EXPECT_HIP(api_.hipSetDevice(1));  // has its own
  EXPECT_NE(Allocate(1 << 20), nullptr);
}

TEST_F(EmulatedMemoryTest, CopiesAndFills) {
  std::vector<int> source(1000);
  std::iota(source.begin(), source.end(), 5);
  void* a = Allocate(4000);
  void* b = Allocate(4000);
  hipStream_t stream = NewStream();
  EXPECT_HIP(api_.hipMemcpyHtoDAsync(a, source.data(), 4000, stream));
  std::vector<int> expected = source;
  std::fill(source.begin(), source.end(), 0);  // pageable memory may change after the call
  EXPECT_HIP(api_.hipMemcpyDtoDAsync(b, a, 4000, stream));
  EXPECT_HIP(api_.hipMemsetD32Async(static_cast<int*>(b) + 10, -7, 5, stream));
  EXPECT_HIP(api_.hipMemsetD8Async(b, 1, 4, stream));
  std::fill(expected.begin() + 10, expected.begin() + 15, -7);
  expected[0] = 0x01010101;
  std::vector<int> result(1000);
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(result.data(), b, 4000, stream));  // pageable: complete when it returns
  EXPECT_EQ(result, expected);
  EXPECT_EQ(FormatReport(), "");
}

TEST_F(EmulatedMemoryTest, FreshMemoryIsPoison) {
  void* memory = Allocate(64);
  std::vector<unsigned char> bytes(64);
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(bytes.data(), memory, 64, nullptr));
  EXPECT_THAT(bytes, Each(0xff));
}

TEST_F(EmulatedMemoryTest, EmptyCallsSucceed) {
  void* memory = &memory;
  EXPECT_HIP(api_.hipMalloc(&memory, 0));
  EXPECT_EQ(memory, nullptr);
  EXPECT_HIP(api_.hipFree(nullptr));
  EXPECT_HIP(api_.hipMemcpyDtoDAsync(nullptr, nullptr, 0, nullptr));
  EXPECT_HIP(api_.hipMemsetD8Async(nullptr, 0, 0, nullptr));
}

TEST_F(EmulatedMemoryTest, CopiesStayWithinAllocations) {
  void* memory = Allocate(100);
  std::vector<char> host(200);
  EXPECT_HIP_ERROR(api_.hipMemcpyHtoDAsync(memory, host.data(), 101, nullptr), hipErrorInvalidValue);
  EXPECT_THAT(FormatReport(), HasSubstr("hipMemcpyHtoDAsync"));
  EXPECT_THAT(FormatReport(), HasSubstr("1 bytes behind allocation"));
  EXPECT_HIP_ERROR(api_.hipMemcpyDtoHAsync(host.data(), host.data() + 10, 5, nullptr), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(api_.hipMemcpyDtoHAsync(memory, memory, 5, nullptr), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(api_.hipMemsetD32Async(static_cast<char*>(memory) + 1, 0, 2, nullptr), hipErrorInvalidValue);
  EXPECT_HIP(api_.hipFree(memory));
  EXPECT_HIP_ERROR(api_.hipMemsetD8Async(memory, 0, 4, nullptr), hipErrorInvalidValue);
  EXPECT_THAT(FormatReport(), HasSubstr("which was freed"));
  EXPECT_HIP(api_.hipDeviceSynchronize());  // refused calls do not harm the device
}

TEST_F(EmulatedMemoryTest, ReportsDoubleFreeAndLeaks) {
  void* memory = Allocate(100);
  EXPECT_HIP(api_.hipFree(memory));
  EXPECT_HIP_ERROR(api_.hipFree(memory), hipErrorInvalidValue);
  EXPECT_THAT(FormatReport(), HasSubstr("double free"));
  int local = 0;
  EXPECT_HIP_ERROR(api_.hipFree(&local), hipErrorInvalidValue);
  Allocate(300);
  Allocate(5);
  NewStream();
  AllocatePinned<char>(10);
  EXPECT_THAT(FullReport(), HasSubstr("not freed: 2 allocations with 305 bytes of device 0"));
  EXPECT_THAT(FullReport(), HasSubstr("not freed: 1 allocations with 10 bytes of host memory"));
  EXPECT_THAT(FullReport(), HasSubstr("not destroyed: 1 streams"));
}

TEST_F(EmulatedMemoryTest, PinnedMemory) {
  int* pinned = AllocatePinned<int>(16);
  void* device_address = nullptr;
  EXPECT_HIP(api_.hipHostGetDevicePointer(&device_address, pinned, 0));
  EXPECT_HIP(api_.hipMemsetD32Async(device_address, 9, 16, nullptr));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_EQ(pinned[15], 9);
  std::vector<int> own(100);
  EXPECT_HIP(api_.hipHostRegister(own.data(), 400, kHostRegisterDefault));
  EXPECT_HIP_ERROR(api_.hipHostRegister(own.data() + 50, 8, kHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
  EXPECT_HIP_ERROR(api_.hipHostFree(own.data()), hipErrorInvalidValue);
  EXPECT_HIP(api_.hipHostUnregister(own.data()));
  EXPECT_HIP_ERROR(api_.hipHostUnregister(own.data()), hipErrorHostMemoryNotRegistered);
  EXPECT_HIP_ERROR(api_.hipHostGetDevicePointer(&device_address, own.data(), 0), hipErrorInvalidValue);
  EXPECT_HIP(api_.hipHostFree(pinned));
  EXPECT_HIP_ERROR(api_.hipHostFree(pinned), hipErrorInvalidValue);
}

TEST_F(EmulatedMemoryTest, PeersNeedAccess) {
  void* here = Allocate(64);
  EXPECT_HIP(api_.hipSetDevice(1));
  void* there = Allocate(64);
  EXPECT_HIP(api_.hipSetDevice(0));
  EXPECT_HIP_ERROR(api_.hipMemcpyDtoDAsync(here, there, 64, nullptr), hipErrorPeerAccessNotEnabled);
  EXPECT_THAT(FormatReport(), HasSubstr("belongs to device 1, to which device 0 has no access"));
  int can = 0;
  EXPECT_HIP(api_.hipDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_HIP(api_.hipDeviceEnablePeerAccess(1, 0));
  EXPECT_HIP_ERROR(api_.hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
  EXPECT_HIP_ERROR(api_.hipDeviceEnablePeerAccess(0, 0), hipErrorInvalidDevice);
  EXPECT_HIP(api_.hipMemcpyDtoDAsync(here, there, 64, nullptr));
  EXPECT_HIP(api_.hipDeviceDisablePeerAccess(1));
  EXPECT_HIP_ERROR(api_.hipDeviceDisablePeerAccess(1), hipErrorPeerAccessNotEnabled);
  EXPECT_HIP_ERROR(api_.hipMemcpyDtoDAsync(here, there, 64, nullptr), hipErrorPeerAccessNotEnabled);
}

TEST_F(EmulatedMemoryTest, PeerCopiesNameTheirDevices) {
  void* here = Allocate(64);
  EXPECT_HIP(api_.hipSetDevice(1));
  void* there = Allocate(64);
  EXPECT_HIP(api_.hipMemsetD8Async(there, 6, 64, nullptr));
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_HIP(api_.hipMemcpyPeerAsync(here, 0, there, 1, 64, nullptr));
  EXPECT_HIP_ERROR(api_.hipMemcpyPeerAsync(here, 1, there, 0, 64, nullptr), hipErrorInvalidValue);
  EXPECT_HIP_ERROR(api_.hipMemcpyPeerAsync(here, 0, there, 7, 64, nullptr), hipErrorInvalidDevice);
  EXPECT_HIP(api_.hipDeviceSynchronize());
  EXPECT_HIP(api_.hipSetDevice(0));
  std::vector<unsigned char> bytes(64);
  EXPECT_HIP(api_.hipMemcpyDtoHAsync(bytes.data(), here, 64, nullptr));
  EXPECT_THAT(bytes, Each(6));
}

TEST_F(EmulatedMemoryTest, StreamOrderedMemory) {
  hipStream_t stream = NewStream();
  void* memory = nullptr;
  ASSERT_HIP(api_.hipMallocAsync(&memory, 64, stream));
  EXPECT_HIP(api_.hipMemsetD8Async(memory, 2, 64, stream));
  EXPECT_HIP(api_.hipFreeAsync(memory, stream));
  EXPECT_HIP(api_.hipStreamSynchronize(stream));
  EXPECT_HIP_ERROR(api_.hipFreeAsync(memory, stream), hipErrorInvalidValue);
  size_t free = 0, total = 0;
  EXPECT_HIP(api_.hipMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
}

}  // namespace
}  // namespace backplane::hip
