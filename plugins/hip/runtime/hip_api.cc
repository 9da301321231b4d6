#include "plugins/hip/runtime/hip_api.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::hip {

const char* GetErrorName(hipError_t error) {
  switch (error) {
#define BACKPLANE_HIP_NAME(name, number, text) \
  case name:                                   \
    return #name;
    BACKPLANE_HIP_ERRORS(BACKPLANE_HIP_NAME)
#undef BACKPLANE_HIP_NAME
  }
  return "hipError";
}

const char* GetErrorText(hipError_t error) {
  switch (error) {
#define BACKPLANE_HIP_TEXT(name, number, text) \
  case name:                                   \
    return text;
    BACKPLANE_HIP_ERRORS(BACKPLANE_HIP_TEXT)
#undef BACKPLANE_HIP_TEXT
  }
  return "unknown error";
}

bool IsSticky(hipError_t error) {
  return error == hipErrorIllegalAddress || error == hipErrorLaunchTimeOut || error == hipErrorAssert ||
         error == hipErrorLaunchFailure || error == hipErrorECCNotCorrectable;
}

namespace {

absl::StatusCode CodeOf(hipError_t error) {
  switch (error) {
    case hipErrorOutOfMemory:
    case hipErrorLaunchOutOfResources:
    case hipErrorRuntimeMemory:
      return absl::StatusCode::kResourceExhausted;
    case hipErrorInvalidValue:
    case hipErrorInvalidConfiguration:
    case hipErrorInvalidPitchValue:
    case hipErrorInvalidSymbol:
    case hipErrorInvalidDevicePointer:
    case hipErrorInvalidMemcpyDirection:
    case hipErrorInvalidDeviceFunction:
    case hipErrorInvalidDevice:
    case hipErrorInvalidImage:
    case hipErrorInvalidSource:
    case hipErrorInvalidKernelFile:
    case hipErrorInvalidHandle:
    case hipErrorCooperativeLaunchTooLarge:
      return absl::StatusCode::kInvalidArgument;
    case hipErrorNoDevice:
    case hipErrorFileNotFound:
    case hipErrorSharedObjectSymbolNotFound:
    case hipErrorNotFound:
      return absl::StatusCode::kNotFound;
    case hipErrorNotSupported:
    case hipErrorNoBinaryForGpu:
    case hipErrorUnsupportedLimit:
    case hipErrorPeerAccessUnsupported:
      return absl::StatusCode::kUnimplemented;
    case hipErrorNotInitialized:
    case hipErrorDeinitialized:
    case hipErrorInsufficientDriver:
    case hipErrorInvalidContext:
    case hipErrorContextIsDestroyed:
    case hipErrorContextAlreadyInUse:
    case hipErrorIllegalState:
    case hipErrorNotReady:
    case hipErrorPeerAccessAlreadyEnabled:
    case hipErrorPeerAccessNotEnabled:
    case hipErrorSetOnActiveProcess:
    case hipErrorHostMemoryAlreadyRegistered:
    case hipErrorHostMemoryNotRegistered:
    case hipErrorStreamCaptureUnsupported:
    case hipErrorStreamCaptureInvalidated:
    case hipErrorStreamCaptureMerge:
    case hipErrorStreamCaptureUnmatched:
    case hipErrorStreamCaptureUnjoined:
    case hipErrorStreamCaptureIsolation:
    case hipErrorStreamCaptureImplicit:
    case hipErrorCapturedEvent:
    case hipErrorStreamCaptureWrongThread:
    case hipErrorGraphExecUpdateFailure:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ToStatus(hipError_t error, absl::string_view what) {
  if (error == hipSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error), absl::StrCat(what, ": ", GetErrorText(error), " [", GetErrorName(error), ", ",
                                                  static_cast<int>(error), "]"));
}

absl::StatusOr<std::string> GetArchitecture(const HipApi& api, int device) {
  if (api.platform == Platform::kNvidia) {
    int major = 0, minor = 0;
    RETURN_IF_ERROR(ToStatus(api.hipDeviceGetAttribute(&major, hipDeviceAttributeComputeCapabilityMajor, device),
                             "hipDeviceGetAttribute of the compute capability"));
    RETURN_IF_ERROR(ToStatus(api.hipDeviceGetAttribute(&minor, hipDeviceAttributeComputeCapabilityMinor, device),
                             "hipDeviceGetAttribute of the compute capability"));
    return absl::StrCat("sm_", major, minor);
  }
  const auto text = [](const char* name) {
    return std::string(name, std::find(name, name + kArchitectureNameBytes, '\0'));
  };
  std::string name;
  if (api.hipGetDevicePropertiesR0600 != nullptr) {
    auto properties = std::make_unique<hipDevicePropR0600>();
    RETURN_IF_ERROR(ToStatus(api.hipGetDevicePropertiesR0600(properties.get(), device), "hipGetDevicePropertiesR0600"));
    name = text(properties->gcnArchName);
  } else if (api.hipGetDeviceProperties != nullptr) {
    auto properties = std::make_unique<hipDevicePropR0000>();
    RETURN_IF_ERROR(ToStatus(api.hipGetDeviceProperties(properties.get(), device), "hipGetDeviceProperties"));
    name = text(properties->gcnArchName);
  } else {
    return absl::UnimplementedError(
        absl::StrCat(api.library, " has neither hipGetDeviceProperties nor hipGetDevicePropertiesR0600"));
  }
  if (name.substr(0, 3) != "gfx") {
    return absl::InternalError(
        absl::StrCat("the properties of device ", device, " name no machine gfx...: \"", name, "\""));
  }
  return name;
}

ScopedDevice::ScopedDevice(const HipApi& api, int device) : api_(api) {
  int before = -1;
  status_ = ToStatus(api_.hipGetDevice(&before), "hipGetDevice");
  if (!status_.ok() || before == device) return;
  status_ = ToStatus(api_.hipSetDevice(device), "hipSetDevice");
  if (status_.ok()) before_ = before;
}

ScopedDevice::~ScopedDevice() {
  if (before_ >= 0) (void)api_.hipSetDevice(before_);
}

}  // namespace backplane::hip
