#include "plugins/hip/runtime/hip_api.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;

TEST(ToStatus, StatesCallTextNameAndNumber) {
  EXPECT_TRUE(ToStatus(hipSuccess, "hipMalloc").ok());
  const absl::Status status = ToStatus(hipErrorOutOfMemory, "hipMalloc of 64 bytes");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "hipMalloc of 64 bytes: out of memory [hipErrorOutOfMemory, 2]");
}

TEST(ToStatus, ChoosesCodes) {
  EXPECT_EQ(ToStatus(hipErrorInvalidValue, "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ToStatus(hipErrorNoDevice, "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ToStatus(hipErrorNoBinaryForGpu, "x").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ToStatus(hipErrorStreamCaptureInvalidated, "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ToStatus(hipErrorIllegalAddress, "x").code(), absl::StatusCode::kInternal);
}

TEST(Errors, UnknownNumbersHaveAName) {
  const auto unknown = static_cast<hipError_t>(12345);
  EXPECT_STREQ(GetErrorName(unknown), "hipError");
  EXPECT_STREQ(GetErrorText(unknown), "unknown error");
  EXPECT_THAT(std::string(ToStatus(unknown, "x").message()), HasSubstr("12345"));
}

TEST(Errors, EachHasItsOwnText) {
  std::vector<std::string> texts;
#define COLLECT(name, number, text) texts.push_back(GetErrorText(name));
  BACKPLANE_HIP_ERRORS(COLLECT)
#undef COLLECT
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  EXPECT_STREQ(GetErrorName(hipErrorLaunchFailure), "hipErrorLaunchFailure");
}

TEST(Errors, OnlyFailuresOfTheDeviceAreSticky) {
  EXPECT_TRUE(IsSticky(hipErrorIllegalAddress));
  EXPECT_TRUE(IsSticky(hipErrorLaunchFailure));
  EXPECT_FALSE(IsSticky(hipErrorOutOfMemory));
  EXPECT_FALSE(IsSticky(hipErrorNotReady));
}

hipError_t PropertiesR0000(hipDevicePropR0000* properties, int) {
  std::memset(properties, 'x', 792);  // what the library of 5.x writes
  std::strcpy(properties->gcnArchName, "gfx90a:sramecc+:xnack-");
  return hipSuccess;
}
hipError_t PropertiesR0600(hipDevicePropR0600* properties, int) {
  std::memset(properties, 'x', 1472);
  std::strcpy(properties->gcnArchName, "gfx1201");
  return hipSuccess;
}
hipError_t WrongProperties(hipDevicePropR0600* properties, int) {
  std::memset(properties, 'x', 1472);
  return hipSuccess;
}

TEST(DeviceArchitecture, ReadsBothLayouts) {
  HipApi api;
  api.library = "libamdhip64.so.5";
  EXPECT_EQ(GetArchitecture(api, 0).status().code(), absl::StatusCode::kUnimplemented);
  api.hipGetDeviceProperties = &PropertiesR0000;
  EXPECT_EQ(*GetArchitecture(api, 0), "gfx90a:sramecc+:xnack-");
  api.hipGetDevicePropertiesR0600 = &PropertiesR0600;  // is preferred, as the other means two layouts in 6.0
  EXPECT_EQ(*GetArchitecture(api, 0), "gfx1201");
}

TEST(DeviceArchitecture, RefusesWhatIsNoName) {
  HipApi api;
  api.hipGetDevicePropertiesR0600 = &WrongProperties;
  EXPECT_EQ(GetArchitecture(api, 0).status().code(), absl::StatusCode::kInternal);
}

TEST(DeviceArchitecture, IsTheComputeCapabilityForNvidia) {
  HipApi api;
  api.platform = Platform::kNvidia;
  api.hipDeviceGetAttribute = [](int* value, hipDeviceAttribute_t attribute, int) {
    *value = attribute == hipDeviceAttributeComputeCapabilityMajor ? 8 : 6;
    return hipSuccess;
  };
  EXPECT_EQ(*GetArchitecture(api, 0), "sm_86");
}

int current_device = 0;

TEST(ScopedDevice, RestoresTheDevice) {
  HipApi api;
  api.hipGetDevice = [](int* device) {
    *device = current_device;
    return hipSuccess;
  };
  api.hipSetDevice = [](int device) {
    if (device > 3) return hipErrorInvalidDevice;
    current_device = device;
    return hipSuccess;
  };
  {
    const ScopedDevice scope(api, 2);
    EXPECT_TRUE(scope.status().ok());
    EXPECT_EQ(current_device, 2);
  }
  EXPECT_EQ(current_device, 0);
  const ScopedDevice wrong(api, 9);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace backplane::hip
