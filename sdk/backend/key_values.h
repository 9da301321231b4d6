// What the processes of one program tell one another while they start: addresses, identifiers, topologies. The host
// connects them; a backend reaches the others through this store alone.
#ifndef BACKPLANE_SDK_BACKEND_KEY_VALUES_H_
#define BACKPLANE_SDK_BACKEND_KEY_VALUES_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane {

// Keys and values are bytes. Thread-safe. Calls go to the host and may block; the host's errors come back as they are.
// Usable from CreateClient until the client is destroyed; afterwards every call is FailedPrecondition.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Waits until some process has put the key; DeadlineExceeded after `limit`.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, std::chrono::milliseconds limit) = 0;
  // Does not wait: NotFound where nobody has put the key. Unimplemented with hosts that only know how to wait.
  virtual absl::StatusOr<std::string> TryGet(absl::string_view key) = 0;
  // A second value for one key is the host's to refuse.
  virtual absl::Status Put(absl::string_view key, absl::string_view value) = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_KEY_VALUES_H_
