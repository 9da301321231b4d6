#include "sdk/backend/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".executable", kTemporarySuffix[] = ".temporary";
constexpr uint64_t kMagic = 0x3143434b50414342;  // the last digit is the version of the format
constexpr auto kAgeOfAbandonedFiles = std::chrono::hours(1);

// The start of an entry; the key and the bytes follow.
struct Header {
  uint64_t magic, key_size, size;
  char digest[32];  // of key and bytes, in hexadecimal digits
};

std::string DigestOf(absl::string_view key, absl::string_view bytes) {
  Digest d;
  d.Bytes(key.data(), key.size());
  d.Bytes(bytes.data(), bytes.size());
  return d.Hex();
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // False: the system reports an error of an earlier write.
  bool Close() { return fd_ < 0 || close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool ReadAll(int fd, char* to, size_t size) {
  while (size > 0) {
    const ssize_t n = read(fd, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

absl::Status FileError(absl::string_view path, absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("compile cache: ", path, ": ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<CompileCache>> CompileCache::Open(std::string folder, int64_t limit_bytes) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    const fs::path above = fs::path(folder).parent_path();
    if (!above.empty()) fs::create_directories(above, error);
    // Another process may create it at the same time.
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::PermissionDeniedError(
          absl::StrCat("compile cache: ", folder, ": cannot be created: ", std::strerror(errno)));
    }
  }
  if (!fs::is_directory(folder, error))
    return absl::InvalidArgumentError(absl::StrCat("compile cache: ", folder, ": is no folder"));
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("compile cache: ", folder, ": ", std::strerror(errno)));
  }
  return std::shared_ptr<CompileCache>(new CompileCache(std::move(folder), limit_bytes));
}

std::string CompileCache::GetPath(absl::string_view key) const {
  return absl::StrCat(folder_, "/", Digest::ComputeHex(key), kSuffix);
}

std::optional<std::string> CompileCache::Find(absl::string_view key) const {
  const std::string path = GetPath(key);
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts;
  if (!file.is_open() || fstat(file.fd(), &facts) != 0) return std::nullopt;
  Header header;
  std::string stored_key, bytes;
  const auto size = static_cast<uint64_t>(facts.st_size);
  bool valid = size >= sizeof header && ReadAll(file.fd(), reinterpret_cast<char*>(&header), sizeof header) &&
               header.magic == kMagic && header.key_size == key.size() && header.size <= size &&
               size == sizeof header + header.key_size + header.size;
  if (valid) {
    stored_key.resize(header.key_size);
    bytes.resize(header.size);
    valid = ReadAll(file.fd(), stored_key.data(), stored_key.size()) && stored_key == key &&
            ReadAll(file.fd(), bytes.data(), bytes.size()) &&
            DigestOf(key, bytes) == absl::string_view(header.digest, sizeof header.digest);
  }
  if (!valid) {
    // A process may have put a good entry in its place since it was opened; losing that one costs a compilation.
    unlink(path.c_str());
    return std::nullopt;
  }
  futimens(file.fd(), nullptr);
  return bytes;
}

absl::Status CompileCache::Insert(absl::string_view key, absl::string_view bytes) const {
  Header header{kMagic, key.size(), bytes.size(), {}};
  const std::string digest = DigestOf(key, bytes);
  std::memcpy(header.digest, digest.data(), sizeof header.digest);
  if (static_cast<int64_t>(sizeof header + key.size() + bytes.size()) > limit_bytes_) return absl::OkStatus();
  const std::string path = GetPath(key);
  std::string temporary = absl::StrCat(path, ".XXXXXX", kTemporarySuffix);
  File file(mkostemps(temporary.data(), sizeof kTemporarySuffix - 1, O_CLOEXEC));
  if (!file.is_open()) return FileError(temporary, "cannot be created");
  const bool written = WriteAll(file.fd(), {reinterpret_cast<const char*>(&header), sizeof header}) &&
                       WriteAll(file.fd(), key) && WriteAll(file.fd(), bytes);
  if (!written || !file.Close() || rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = FileError(temporary, "cannot be written");
    unlink(temporary.c_str());
    return status;
  }
  RemoveOldEntries();
  return absl::OkStatus();
}

void CompileCache::Remove(absl::string_view key) const { unlink(GetPath(key).c_str()); }

void CompileCache::RemoveOldEntries() const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t sum = 0;
  std::error_code error;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    // Other processes remove files meanwhile.
    std::error_code gone;
    const std::string name = at->path().filename().string();
    const fs::file_time_type used = fs::last_write_time(at->path(), gone);
    if (gone) continue;
    if (absl::EndsWith(name, kTemporarySuffix)) {
      if (now - used > kAgeOfAbandonedFiles) fs::remove(at->path(), gone);
    } else if (absl::EndsWith(name, kSuffix)) {
      const auto bytes = static_cast<int64_t>(fs::file_size(at->path(), gone));
      if (gone) continue;
      entries.push_back({used, bytes, at->path()});
      sum += bytes;
    }
  }
  if (sum <= limit_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (sum <= limit_bytes_) return;
    std::error_code gone;
    fs::remove(entry.path, gone);
    sum -= entry.bytes;
  }
}

}  // namespace backplane
