// The key-value store that the host shares between the processes of one program. Backends use it to exchange addresses,
// identifiers and topologies while they start. It is the only connection between processes that a backend gets.
#ifndef BACKPLANE_SDK_BACKEND_KEY_VALUES_H_
#define BACKPLANE_SDK_BACKEND_KEY_VALUES_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane {

// Keys and values are bytes. Thread-safe. Calls go to the host and may block; errors of the host are returned as they
// are. The store is valid from CreateClient until the client is destroyed; afterwards every call returns
// FailedPrecondition.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Waits until some process has put the key. Returns DeadlineExceeded after `limit`.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, std::chrono::milliseconds limit) = 0;
  // Does not wait. Returns NotFound if no process has put the key, Unimplemented if the host offers only waiting reads.
  virtual absl::StatusOr<std::string> TryGet(absl::string_view key) = 0;
  // Stores a value. The host decides whether a second value for the same key is an error.
  virtual absl::Status Put(absl::string_view key, absl::string_view value) = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_KEY_VALUES_H_
