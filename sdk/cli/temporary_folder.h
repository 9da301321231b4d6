// A temporary folder of a subcommand, which the destructor removes.
#ifndef BACKPLANE_SDK_CLI_TEMPORARY_FOLDER_H_
#define BACKPLANE_SDK_CLI_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace backplane::cli {

class TemporaryFolder {
 public:
  // `command` is the subcommand, a part of the folder's name and of the error. Returns Unavailable if no folder can be
  // created.
  static absl::StatusOr<TemporaryFolder> Make(absl::string_view command) {
    std::error_code error;
    std::string path =
        (std::filesystem::temp_directory_path(error) / absl::StrCat("backplane-", command, ".XXXXXX")).string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat(command, ": no temporary folder can be made: ", strerror(errno)));
    }
    return TemporaryFolder(path);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  std::filesystem::path operator/(const std::string& name) const { return std::filesystem::path(path_) / name; }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_TEMPORARY_FOLDER_H_
