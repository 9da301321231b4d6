// The store by which the clients of a distributed program exchange data. A host passes it to Client::Create.
#ifndef BACKPLANE_SDK_HOST_KEY_VALUE_STORE_H_
#define BACKPLANE_SDK_HOST_KEY_VALUE_STORE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/pjrt_c_api.h"
#include "base/mutex.h"

namespace backplane::host {

// Implementations must be thread-safe: plugins call the store from their own threads.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Waits for a value. Returns DEADLINE_EXCEEDED after `timeout`.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) = 0;
  // Returns NOT_FOUND if there is no value yet.
  virtual absl::StatusOr<std::string> TryGet(absl::string_view key) = 0;
  virtual absl::Status Put(absl::string_view key, absl::string_view value) = 0;
};

// A store for the clients of one process.
class InProcessKeyValueStore : public KeyValueStore {
 public:
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;
  absl::StatusOr<std::string> TryGet(absl::string_view key) override;
  // Returns ALREADY_EXISTS if the key has a value.
  absl::Status Put(absl::string_view key, absl::string_view value) override;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string, std::less<>> values_ ABSL_GUARDED_BY(mutex_);
};

// Sets the three callbacks of the arguments to functions that use `store`, which must outlive the client.
void SetCallbacks(KeyValueStore* store, PJRT_Client_Create_Args* args);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_KEY_VALUE_STORE_H_
