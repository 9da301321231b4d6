#include "plugins/hip/runtime/open_runtime.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/types/status_macros.h"
#include "plugins/hip/runtime/cuda_driver.h"

namespace backplane::hip {
namespace {

constexpr char kLibraryVariable[] = "BACKPLANE_HIP_LIBRARY";
constexpr char kOldestVersion[] = "HIP 5.2";

struct OpenedLibrary {
  void* handle = nullptr;
  std::string name;
};

// Opens the first of the candidates that the loader finds. `what` names the library in the error.
absl::StatusOr<OpenedLibrary> OpenFirst(absl::Span<const std::string> candidates, absl::string_view what) {
  std::string reason;  // the first one that is not a missing file, else the first
  bool found_a_file = false;
  for (const std::string& candidate : candidates) {
    if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      return OpenedLibrary{handle, candidate};
    }
    const char* message = dlerror();
    const std::string text = message == nullptr ? "unknown reason" : message;
    const bool missing =
        text.substr(0, candidate.size()) == candidate && text.find("No such file or directory") != std::string::npos;
    if (reason.empty() || (!missing && !found_a_file)) reason = text;
    found_a_file = found_a_file || !missing;
  }
  const std::string message = absl::StrCat(what, " cannot be opened (", absl::StrJoin(candidates, ", "), "): ", reason);
  return found_a_file ? absl::FailedPreconditionError(message) : absl::NotFoundError(message);
}

// Returns the folder of the file that contains this code, with a slash at its end.
std::string OwnFolder() {
  static const char anchor = 0;
  Dl_info info{};
  std::string path = dladdr(&anchor, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  if (path.find('/') == std::string::npos) {  // a program that was found by PATH
    char buffer[4096];
    const ssize_t length = readlink("/proc/self/exe", buffer, sizeof buffer);
    if (length > 0) path.assign(buffer, static_cast<size_t>(length));
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

std::vector<std::string> Candidates(Platform platform, const std::string& library) {
  if (!library.empty()) return {library};
  switch (platform) {
    case Platform::kAmd:
      return {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    case Platform::kNvidia:
      return {"libcuda.so.1", "libcuda.so"};
    case Platform::kEmulated:
      // The name alone comes last: it finds the library that another copy of this code has opened, or one of the search
      // path.
      return {absl::StrCat(OwnFolder(), "libhipemu.so"), absl::StrCat(OwnFolder(), "plugins/libhipemu.so"),
              "libhipemu.so"};
  }
  return {};
}

absl::Status FillByHip(const OpenedLibrary& library, HipApi& api) {
  std::vector<absl::string_view> missing;
#define BACKPLANE_HIP_RESOLVE(name, result, parameters)                          \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library.handle, #name)); \
  if (api.name == nullptr) missing.push_back(#name);
  BACKPLANE_HIP_REQUIRED(BACKPLANE_HIP_RESOLVE)
#undef BACKPLANE_HIP_RESOLVE
#define BACKPLANE_HIP_RESOLVE(name, version, result, parameters) \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library.handle, #name));
  BACKPLANE_HIP_OPTIONAL(BACKPLANE_HIP_RESOLVE)
#undef BACKPLANE_HIP_RESOLVE
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(library.name, " lacks ", absl::StrJoin(missing, ", "), ", which ", kOldestVersion, " has"));
}

// Checks the state of the driver and the devices, after the table has been filled.
absl::Status Start(absl::string_view gpus, HipApi& api) {
  const auto judge = [&](hipError_t error, absl::string_view call) -> absl::Status {
    switch (error) {
      case hipSuccess:
        return absl::OkStatus();
      case hipErrorNoDevice:
      case hipErrorInvalidDevice:  // what hipInit of HIP 5 says where there is no device
        return absl::NotFoundError(
            absl::StrCat("no device: ", api.library, " was opened but finds no ", gpus, " on this machine"));
      case hipErrorInsufficientDriver:
        return absl::FailedPreconditionError(absl::StrCat(
            "the driver is too old or missing: ", ToStatus(error, absl::StrCat(call, " of ", api.library)).message()));
      default:
        return absl::FailedPreconditionError(absl::StrCat(
            "the runtime cannot start: ", ToStatus(error, absl::StrCat(call, " of ", api.library)).message()));
    }
  };
  RETURN_IF_ERROR(judge(api.hipInit(0), "hipInit"));
  RETURN_IF_ERROR(judge(api.hipGetDeviceCount(&api.device_count), "hipGetDeviceCount"));
  if (api.device_count < 1) RETURN_IF_ERROR(judge(hipErrorNoDevice, "hipGetDeviceCount"));
  RETURN_IF_ERROR(judge(api.hipRuntimeGetVersion(&api.runtime_version), "hipRuntimeGetVersion"));
  api.features.launch_host_func = api.hipLaunchHostFunc != nullptr;
  api.features.stream_ordered_memory = api.hipMallocAsync != nullptr && api.hipFreeAsync != nullptr;
  api.features.graph_copy_updates =
      api.hipGraphExecMemcpyNodeSetParams1D != nullptr && api.hipGraphExecMemsetNodeSetParams != nullptr;
  api.features.shared_memory_opt_in = api.platform == Platform::kNvidia;
  return absl::OkStatus();
}

// Returns the first line of the emulated runtime's report.
std::string EmulatedReport(void* handle) {
  const auto report = reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(handle, "hipemuReport"));
  char text[1024] = "";
  report(text, sizeof text);
  const std::string line = text;
  return line.substr(0, line.find('\n'));
}

absl::StatusOr<HipApi> OpenPlatform(Platform platform, const std::string& library) {
  const absl::string_view what = platform == Platform::kAmd      ? "the runtime of AMD GPUs, libamdhip64,"
                                 : platform == Platform::kNvidia ? "the driver of NVIDIA GPUs, libcuda,"
                                                                 : "the emulated runtime, libhipemu,";
  HipApi api;
  ASSIGN_OR_RETURN(const OpenedLibrary opened, OpenFirst(Candidates(platform, library), what));
  api.platform = platform;
  api.library = opened.name;
  if (platform == Platform::kNvidia) {
    RETURN_IF_ERROR(cuda::FillByCuda(opened.handle, opened.name, api));
  } else {
    RETURN_IF_ERROR(FillByHip(opened, api));
    // The emulated runtime may stand in for AMD's; it has one function of its own.
    if (dlsym(opened.handle, "hipemuReport") != nullptr) api.platform = Platform::kEmulated;
  }
  const absl::Status started = Start(platform == Platform::kNvidia ? "NVIDIA GPU" : "AMD GPU", api);
  if (started.ok()) return api;
  // The emulated runtime says in its report what is wrong with its settings.
  const std::string report = api.platform == Platform::kEmulated ? EmulatedReport(opened.handle) : "";
  if (report.empty()) return started;
  return absl::Status(started.code(), absl::StrCat(started.message(), ": ", report));
}

}  // namespace

absl::StatusOr<PlatformChoice> ParsePlatform(absl::string_view name) {
  if (name == "auto") return PlatformChoice::kAuto;
  if (name == "amd") return PlatformChoice::kAmd;
  if (name == "nvidia") return PlatformChoice::kNvidia;
  if (name == "emulated") return PlatformChoice::kEmulated;
  return absl::InvalidArgumentError(absl::StrCat("platform \"", name, "\" is none of auto, amd, nvidia and emulated"));
}

absl::StatusOr<HipApi> OpenRuntime(const RuntimeOptions& options) {
  const char* variable = std::getenv(kLibraryVariable);
  const std::string by_variable = variable == nullptr ? "" : variable;
  switch (options.platform) {
    case PlatformChoice::kAmd:
      return OpenPlatform(Platform::kAmd, options.library.empty() ? by_variable : options.library);
    case PlatformChoice::kNvidia:
      return OpenPlatform(Platform::kNvidia, options.library);
    case PlatformChoice::kEmulated:
      return OpenPlatform(Platform::kEmulated, options.library);
    case PlatformChoice::kAuto:
      break;
  }
  if (!options.library.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the library ", options.library,
                                                   " needs a platform: amd, nvidia or "
                                                   "emulated"));
  }
  absl::StatusOr<HipApi> amd = OpenPlatform(Platform::kAmd, by_variable);
  if (amd.ok() || !by_variable.empty()) return amd;
  absl::StatusOr<HipApi> nvidia = OpenPlatform(Platform::kNvidia, "");
  if (nvidia.ok()) return nvidia;
  return absl::NotFoundError(
      absl::StrCat("no GPU can be used; AMD: ", amd.status().message(), "; NVIDIA: ", nvidia.status().message()));
}

}  // namespace backplane::hip
