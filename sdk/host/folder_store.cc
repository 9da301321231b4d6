#include "sdk/host/folder_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace backplane::host {
namespace {

constexpr size_t kMaxKeyBytes = 120;  // twice as many characters must fit a file name
constexpr absl::Duration kFirstPause = absl::Microseconds(200), kMaxPause = absl::Milliseconds(5);

absl::StatusOr<std::string> FileOf(const std::string& folder, absl::string_view key) {
  if (key.size() > kMaxKeyBytes)
    return absl::InvalidArgumentError(absl::StrCat("key of ", key.size(), " bytes: at most ", kMaxKeyBytes));
  return absl::StrCat(folder, "/", absl::BytesToHexString(key), ".value");
}

}  // namespace

absl::StatusOr<std::string> FolderKeyValueStore::TryGet(absl::string_view key) {
  const absl::StatusOr<std::string> path = FileOf(folder_, key);
  if (!path.ok()) return path.status();
  std::ifstream in(*path, std::ios::binary);
  if (!in.good()) return absl::NotFoundError(absl::StrCat("key ", key, ": no value"));
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

absl::StatusOr<std::string> FolderKeyValueStore::Get(absl::string_view key, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kMaxPause)) {
    absl::StatusOr<std::string> value = TryGet(key);
    if (value.ok() || !absl::IsNotFound(value.status())) return value;
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("key ", key, ": no value within ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(pause);
  }
}

absl::Status FolderKeyValueStore::Put(absl::string_view key, absl::string_view value) {
  const absl::StatusOr<std::string> path = FileOf(folder_, key);
  if (!path.ok()) return path.status();
  static std::atomic<int> count{0};
  const std::string part = absl::StrCat(folder_, "/", getpid(), ".", count.fetch_add(1), ".part");
  {
    std::ofstream out(part, std::ios::binary);
    out.write(value.data(), static_cast<std::streamsize>(value.size()));
    out.close();
    if (!out) return absl::UnavailableError(absl::StrCat(part, ": cannot be written"));
  }
  const int error = link(part.c_str(), path->c_str()) == 0 ? 0 : errno;  // unlike a rename, it does not replace
  unlink(part.c_str());
  if (error == EEXIST) return absl::AlreadyExistsError(absl::StrCat("key ", key, ": it has a value"));
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat("key ", key));
}

}  // namespace backplane::host
