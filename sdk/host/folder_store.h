// A key-value store in a folder, for the processes of one program on one machine.
#ifndef BACKPLANE_SDK_HOST_FOLDER_STORE_H_
#define BACKPLANE_SDK_HOST_FOLDER_STORE_H_

#include <string>
#include <utility>

#include "sdk/host/key_value_store.h"

namespace backplane::host {

// Every process creates one with the same folder, which must exist and belong to this program alone. A value is a file;
// it appears at once as a whole. Waiting is done by looking again.
class FolderKeyValueStore : public KeyValueStore {
 public:
  explicit FolderKeyValueStore(std::string folder) : folder_(std::move(folder)) {}
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;
  absl::StatusOr<std::string> TryGet(absl::string_view key) override;
  // Returns ALREADY_EXISTS if the key has a value.
  absl::Status Put(absl::string_view key, absl::string_view value) override;

 private:
  const std::string folder_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_FOLDER_STORE_H_
