// The store by which the clients of a distributed program find each other. A host gives one to Client::Create.
#ifndef BACKPLANE_SDK_HOST_KEY_VALUE_STORE_H_
#define BACKPLANE_SDK_HOST_KEY_VALUE_STORE_H_

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/pjrt_c_api.h"

namespace backplane::host {

// Thread-safe in every implementation: plugins call it from threads of their own.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Waits for a value; DEADLINE_EXCEEDED after `timeout`.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) = 0;
  // NOT_FOUND when there is none yet.
  virtual absl::StatusOr<std::string> TryGet(absl::string_view key) = 0;
  virtual absl::Status Put(absl::string_view key, absl::string_view value) = 0;
};

// For the clients of one process.
class InProcessKeyValueStore : public KeyValueStore {
 public:
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;
  absl::StatusOr<std::string> TryGet(absl::string_view key) override;
  absl::Status Put(absl::string_view key, absl::string_view value) override;  // a key is set once: ALREADY_EXISTS

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

// Puts the three callbacks, with `store` behind them, into the arguments. The store must outlive the client.
void SetCallbacks(KeyValueStore* store, PJRT_Client_Create_Args* args);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_KEY_VALUE_STORE_H_
