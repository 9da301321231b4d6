#include "sdk/cli/command_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace backplane::cli {

namespace fs = std::filesystem;

absl::StatusOr<std::string> ThisCommand() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError(absl::StrCat("/proc/self/exe: ", error.message()));
  return self.string();
}

std::string FindCommandLibrary(absl::string_view kind, absl::string_view file) {
  const absl::StatusOr<std::string> self = ThisCommand();
  if (!self.ok()) return "";
  const fs::path here = fs::path(*self).parent_path();
  for (const std::string& place :
       {absl::StrCat("../", kind), absl::StrCat("../" BACKPLANE_LIBDIR "/backplane/", kind), std::string(".")}) {
    std::error_code error;
    const fs::path path = here / place / std::string(file);
    if (fs::is_regular_file(path, error)) return fs::canonical(path, error).string();
  }
  return "";
}

absl::StatusOr<std::string> FindCommandData(absl::string_view name) {
  const absl::StatusOr<std::string> self = ThisCommand();
  if (!self.ok()) return self.status();
  const fs::path folder = fs::path(*self).parent_path().parent_path() / "share/backplane" / std::string(name);
  std::error_code error;
  if (fs::is_directory(folder, error)) return folder.string();
  return absl::NotFoundError(absl::StrCat(folder.string(), ": not there; is Backplane installed whole?"));
}

}  // namespace backplane::cli
