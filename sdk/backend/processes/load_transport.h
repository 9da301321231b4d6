// Opens the library that carries messages between processes. See transport.h.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_LOAD_TRANSPORT_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_LOAD_TRANSPORT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/backend/processes/transport.h"

namespace backplane {

// Opens an adapter, which is never closed again. `name` without a slash is the name of a transport, such as "gloo": the
// file libbackplane_gloo.so in the folder of the plugin (the library that contains this function). Otherwise `name` is
// the path of an adapter. Returns FailedPrecondition if the library cannot be opened, or is made for another version.
// Thread-safe.
absl::StatusOr<const BackplaneTransport*> LoadTransport(absl::string_view name);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_LOAD_TRANSPORT_H_
