#include "sdk/backend/processes/load_transport.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

// Returns the folder of the library or program that contains this function, with a slash; "" if unknown.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

absl::StatusOr<const BackplaneTransport*> LoadTransport(absl::string_view name) {
  const bool is_path = name.find('/') != absl::string_view::npos;
  const std::string path = is_path ? std::string(name) : absl::StrCat(OwnFolder(), "libbackplane_", name, ".so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat("transport ", name, ": cannot open it: ", why == nullptr ? path : why));
  }
  auto get = reinterpret_cast<BackplaneGetTransport>(dlsym(library, BACKPLANE_GET_TRANSPORT));
  const BackplaneTransport* transport = get == nullptr ? nullptr : get();
  if (transport == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("transport ", name, ": ", path, " has no function ", BACKPLANE_GET_TRANSPORT));
  }
  if (transport->version != BACKPLANE_TRANSPORT_VERSION) {
    return absl::FailedPreconditionError(absl::StrCat("transport ", name, ": ", path, " has version ",
                                                      transport->version, ", expected ", BACKPLANE_TRANSPORT_VERSION));
  }
  return transport;
}

}  // namespace backplane
