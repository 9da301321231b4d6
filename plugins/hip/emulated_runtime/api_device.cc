// Exported functions: initialization, devices, errors.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/api.h"

namespace backplane::hip::emulated {
namespace {

constexpr int kVersion = 60300000;  // HIP 6.3, whose functions these are

hipError_t CopyName(const std::string& name, char* to, int bytes) {
  if (to == nullptr || bytes <= 0) return hipErrorInvalidValue;
  const size_t length = std::min(name.size(), static_cast<size_t>(bytes) - 1);
  std::memcpy(to, name.data(), length);
  to[length] = '\0';
  return hipSuccess;
}

std::optional<int64_t> Attribute(const Runtime& runtime, int device, hipDeviceAttribute_t attribute) {
  const Settings& settings = runtime.settings();
  switch (attribute) {
    case hipDeviceAttributeMaxThreadsPerBlock:
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
      return 1024;
    case hipDeviceAttributeMaxGridDimX:
      return 2147483647;
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
      return 65536;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      return 65536;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      return 2048;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      return 2;
    case hipDeviceAttributeMaxRegistersPerBlock:
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      return 65536;
    case hipDeviceAttributeWarpSize:
      return settings.wave_size();
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount:
      return settings.compute_units();
    case hipDeviceAttributeComputeCapabilityMajor:
      return settings.architecture == "gfx942" ? 9 : 11;
    case hipDeviceAttributeComputeCapabilityMinor:
      return settings.architecture == "gfx942" ? 4 : 0;
    case hipDeviceAttributeTotalGlobalMem:
      return std::min<int64_t>(static_cast<int64_t>(settings.memory), 2147483647);
    case hipDeviceAttributeTotalConstantMemory:
      return 2147483647;
    case hipDeviceAttributeL2CacheSize:
      return 4 << 20;
    case hipDeviceAttributeClockRate:
      return 2100000;
    case hipDeviceAttributeMemoryClockRate:
      return 1300000;
    case hipDeviceAttributeMemoryBusWidth:
      return settings.architecture == "gfx942" ? 8192 : 384;
    case hipDeviceAttributeWallClockRate:
      return 100000;
    case hipDeviceAttributePciBusId:
      return device + 1;
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeHostRegisterSupported:
    case hipDeviceAttributeMemoryPoolsSupported:
      return 1;
    case hipDeviceAttributeAsyncEngineCount:
      return 2;
    case hipDeviceAttributeEccEnabled:
    case hipDeviceAttributeIntegrated:
    case hipDeviceAttributeCooperativeLaunch:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributePageableMemoryAccess:
    case hipDeviceAttributePciDeviceId:
    case hipDeviceAttributePciDomainID:
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
      return 0;
  }
  return std::nullopt;
}

template <typename Properties>
hipError_t FillProperties(Runtime& runtime, Properties* properties, int device) {
  if (properties == nullptr) return hipErrorInvalidValue;
  if (runtime.device(device) == nullptr) return hipErrorInvalidDevice;
  // Only the members that the layouts of hip_types.h name, and the name, which is the first of both.
  std::memset(properties->before, 0, sizeof properties->before);
  std::memset(properties->gcnArchName, 0, sizeof properties->gcnArchName);
  std::memset(properties->after, 0, sizeof properties->after);
  CopyName("Emulated AMD GPU", reinterpret_cast<char*>(properties->before), 256);
  return CopyName(runtime.settings().architecture, properties->gcnArchName,
                  static_cast<int>(sizeof properties->gcnArchName));
}

}  // namespace
}  // namespace backplane::hip::emulated

namespace backplane::hip {
using namespace emulated;  // NOLINT: the exported functions are thin

HIPEMU_EXPORT hipError_t hipInit(unsigned flags) noexcept {
  return Call("hipInit", kRunsOnFailedDevice, [&](Runtime&) { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}

HIPEMU_EXPORT hipError_t hipRuntimeGetVersion(int* version) noexcept {
  if (version == nullptr) return SetLastError(hipErrorInvalidValue);
  *version = kVersion;
  return hipSuccess;
}

HIPEMU_EXPORT hipError_t hipDriverGetVersion(int* version) noexcept { return hipRuntimeGetVersion(version); }

HIPEMU_EXPORT const char* hipGetErrorName(hipError_t error) noexcept { return GetErrorName(error); }
HIPEMU_EXPORT const char* hipGetErrorString(hipError_t error) noexcept { return GetErrorText(error); }

HIPEMU_EXPORT hipError_t hipPeekAtLastError() noexcept { return GetThreadState().last; }

HIPEMU_EXPORT hipError_t hipGetLastError() noexcept {
  const hipError_t last = GetThreadState().last;
  GetThreadState().last = hipSuccess;
  return last;
}

HIPEMU_EXPORT hipError_t hipGetDeviceCount(int* count) noexcept {
  if (count == nullptr) return SetLastError(hipErrorInvalidValue);
  *count = 0;
  return Call("hipGetDeviceCount", kRunsOnFailedDevice, [&](Runtime& runtime) {
    *count = runtime.device_count();
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipSetDevice(int device) noexcept {
  return Call("hipSetDevice", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (runtime.device(device) == nullptr) return hipErrorInvalidDevice;
    GetThreadState().device = device;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipGetDevice(int* device) noexcept {
  return Call("hipGetDevice", kRunsOnFailedDevice, [&](Runtime&) {
    if (device == nullptr) return hipErrorInvalidValue;
    *device = GetThreadState().device;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) noexcept {
  return Call("hipDeviceGet", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (device == nullptr) return hipErrorInvalidValue;
    if (runtime.device(ordinal) == nullptr) return hipErrorInvalidDevice;
    *device = ordinal;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) noexcept {
  return Call("hipDeviceGetAttribute", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (value == nullptr) return hipErrorInvalidValue;
    if (runtime.device(device) == nullptr) return hipErrorInvalidDevice;
    const std::optional<int64_t> known = Attribute(runtime, device, attribute);
    if (!known.has_value()) return hipErrorInvalidValue;
    *value = static_cast<int>(*known);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceGetName(char* name, int bytes, hipDevice_t device) noexcept {
  return Call("hipDeviceGetName", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (runtime.device(device) == nullptr) return hipErrorInvalidDevice;
    return CopyName(absl::StrCat("Emulated AMD GPU (", runtime.settings().architecture, ")"), name, bytes);
  });
}

HIPEMU_EXPORT hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) noexcept {
  return Call("hipDeviceTotalMem", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (bytes == nullptr) return hipErrorInvalidValue;
    if (runtime.device(device) == nullptr) return hipErrorInvalidDevice;
    *bytes = runtime.device(device)->heap().capacity();
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceGetPCIBusId(char* id, int bytes, int device) noexcept {
  return Call("hipDeviceGetPCIBusId", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (runtime.device(device) == nullptr) return hipErrorInvalidDevice;
    return CopyName(absl::StrCat("0000:", absl::Hex(device + 1, absl::kZeroPad2), ":00.0"), id, bytes);
  });
}

HIPEMU_EXPORT hipError_t hipGetDeviceProperties(hipDevicePropR0000* properties, int device) noexcept {
  return Call("hipGetDeviceProperties", kRunsOnFailedDevice,
              [&](Runtime& runtime) { return FillProperties(runtime, properties, device); });
}

HIPEMU_EXPORT hipError_t hipGetDevicePropertiesR0600(hipDevicePropR0600* properties, int device) noexcept {
  return Call("hipGetDevicePropertiesR0600", kRunsOnFailedDevice,
              [&](Runtime& runtime) { return FillProperties(runtime, properties, device); });
}

HIPEMU_EXPORT hipError_t hipDeviceSynchronize() noexcept {
  return Call("hipDeviceSynchronize", kUnsafeInCapture,
              [&](Runtime& runtime) { return GetCurrentDevice(runtime).Synchronize(); });
}

HIPEMU_EXPORT hipError_t hipDeviceReset() noexcept {
  return Call("hipDeviceReset", kUnsafeInCapture | kRunsOnFailedDevice, [&](Runtime& runtime) {
    GetCurrentDevice(runtime).Reset();
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceCanAccessPeer(int* can_access, int device, int peer) noexcept {
  return Call("hipDeviceCanAccessPeer", kRunsOnFailedDevice, [&](Runtime& runtime) {
    if (can_access == nullptr) return hipErrorInvalidValue;
    if (runtime.device(device) == nullptr || runtime.device(peer) == nullptr) return hipErrorInvalidDevice;
    *can_access = device != peer ? 1 : 0;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) noexcept {
  return Call("hipDeviceEnablePeerAccess", kPlain, [&](Runtime& runtime) {
    if (flags != 0) return hipErrorInvalidValue;
    if (runtime.device(peer) == nullptr || peer == GetThreadState().device) return hipErrorInvalidDevice;
    return GetCurrentDevice(runtime).AddPeer(peer) ? hipSuccess : hipErrorPeerAccessAlreadyEnabled;
  });
}

HIPEMU_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer) noexcept {
  return Call("hipDeviceDisablePeerAccess", kPlain, [&](Runtime& runtime) {
    if (runtime.device(peer) == nullptr || peer == GetThreadState().device) return hipErrorInvalidDevice;
    return GetCurrentDevice(runtime).RemovePeer(peer) ? hipSuccess : hipErrorPeerAccessNotEnabled;
  });
}

}  // namespace backplane::hip
