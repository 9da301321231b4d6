// A runtime library for tests of OpenRuntime: all functions of HIP 5.2 besides those of fake_hip_devices.cc. They do
// nothing.
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip {
namespace {
template <typename Result>
Result Nothing() {
  return Result{};
}
}  // namespace

#define FAKE_FUNCTION(name, result, parameters) \
  extern "C" __attribute__((visibility("default"), weak)) result name parameters { return Nothing<result>(); }
BACKPLANE_HIP_REQUIRED(FAKE_FUNCTION)
#undef FAKE_FUNCTION

}  // namespace backplane::hip
