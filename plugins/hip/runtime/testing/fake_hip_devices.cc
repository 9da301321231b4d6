// Functions whose results the environment says; they replace the weak ones of fake_hip.cc.
#include <cstdlib>

#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip {
namespace {

int FromEnvironment(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) hipError_t hipInit(unsigned) {
  return static_cast<hipError_t>(FromEnvironment("FAKE_HIP_INIT"));
}

extern "C" __attribute__((visibility("default"))) hipError_t hipGetDeviceCount(int* count) {
  *count = FromEnvironment("FAKE_HIP_DEVICES");
  return static_cast<hipError_t>(FromEnvironment("FAKE_HIP_COUNT"));
}

extern "C" __attribute__((visibility("default"))) hipError_t hipRuntimeGetVersion(int* version) {
  *version = 60300000;
  return hipSuccess;
}

}  // namespace backplane::hip
