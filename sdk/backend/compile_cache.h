// A folder of stored executables that outlives the process: compiling a program again reads the result of the first
// time. Many processes may use one folder at the same time.
//
// An entry is a file. Its name is the digest of its key; it contains the key, the stored bytes, and a digest of both.
// It is written to a temporary file and renamed, so a reader finds a complete entry or none. An entry with another key,
// of another size or with a wrong digest is damaged: it is removed and counts as absent.
//
// The sum of the sizes of all entries is bounded: an insertion removes the entries that have not been used for the
// longest time. Times of use are the modification times of the files. Processes that insert at the same time may exceed
// the bound for a moment. Temporary files that a process has left behind are removed after an hour.
//
// Whoever can write to the folder can make the process run their code. A folder that is created here is accessible to
// its owner alone.
#ifndef BACKPLANE_SDK_BACKEND_COMPILE_CACHE_H_
#define BACKPLANE_SDK_BACKEND_COMPILE_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane {

// Thread-safe.
class CompileCache {
 public:
  static constexpr int64_t kDefaultLimitBytes = int64_t{4} << 30;

  // Creates the folder, and those above it, if necessary. PermissionDenied or InvalidArgument, naming the folder, if it
  // cannot be created, is no folder, or cannot be written.
  static absl::StatusOr<std::shared_ptr<CompileCache>> Open(std::string folder, int64_t limit_bytes);

  // Returns the bytes that were inserted under the key, by whichever process, and marks the entry as used.
  std::optional<std::string> Find(absl::string_view key) const;
  // Stores the bytes, in place of an earlier entry, and removes old entries. Bytes larger than the limit are not
  // stored. An error, of a full disk for example, leaves no entry.
  absl::Status Insert(absl::string_view key, absl::string_view bytes) const;
  // Removes an entry that turned out to be unusable.
  void Remove(absl::string_view key) const;

  const std::string& folder() const { return folder_; }

 private:
  CompileCache(std::string folder, int64_t limit_bytes) : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}
  std::string GetPath(absl::string_view key) const;
  void RemoveOldEntries() const;

  const std::string folder_;
  const int64_t limit_bytes_;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COMPILE_CACHE_H_
