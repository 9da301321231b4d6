// Opens the runtime library of a GPU platform at run time and fills a HipApi with its functions.
#ifndef BACKPLANE_PLUGINS_HIP_RUNTIME_OPEN_RUNTIME_H_
#define BACKPLANE_PLUGINS_HIP_RUNTIME_OPEN_RUNTIME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip {

enum class PlatformChoice { kAuto, kAmd, kNvidia, kEmulated };

// Reads "auto", "amd", "nvidia" or "emulated". Returns InvalidArgument for anything else.
absl::StatusOr<PlatformChoice> ParsePlatform(absl::string_view name);

struct RuntimeOptions {
  // kAuto takes the first platform that has a device: AMD, then NVIDIA. It never takes the emulated one.
  PlatformChoice platform = PlatformChoice::kAuto;
  // The path or the name of the library. If it is set, `platform` must not be kAuto. If it is empty, the environment
  // variable BACKPLANE_HIP_LIBRARY may name a library with AMD's interface, also for kAuto. Without the variable, the
  // first of these that can be loaded is opened:
  //   amd       libamdhip64.so.7, .so.6, .so.5, .so, by the loader's search path
  //   nvidia    libcuda.so.1, libcuda.so
  //   emulated  libhipemu.so beside the library or program that contains this code, then in its folder plugins/, then
  //             by the search path of the loader
  std::string library;
};

// Opens the library, initializes it and counts the devices. Each error is one sentence:
//   NotFound            the library is missing, or there is no device
//   FailedPrecondition  the driver is missing or too old, or cannot be initialized
//   Unimplemented       the library lacks a required function, which is named
// May be called several times and from several threads; the library stays loaded until the process ends.
absl::StatusOr<HipApi> OpenRuntime(const RuntimeOptions& options);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_RUNTIME_OPEN_RUNTIME_H_
