#include "plugins/hip/libraries/vendor_library.h"

#include <dlfcn.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace backplane::hip {

absl::StatusOr<VendorLibrary> OpenVendorLibrary(absl::Span<const std::string> names) {
  absl::Status failed;
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
      return VendorLibrary{handle, name};
    const char* message = dlerror();
    const std::string text = message == nullptr ? "unknown reason" : message;
    // Text about another file is about a library that this one needs.
    const bool missing =
        text.substr(0, name.size()) == name && text.find("No such file or directory") != std::string::npos;
    if (!missing && failed.ok()) failed = absl::FailedPreconditionError(absl::StrCat("it cannot be loaded: ", text));
  }
  return failed.ok() ? absl::NotFoundError(absl::StrCat(absl::StrJoin(names, ", "), ": not found")) : failed;
}

absl::Status CheckSameRuntime(const VendorLibrary& library, const HipApi& api) {
  if (api.platform == Platform::kNvidia) return absl::OkStatus();
  // The search covers what the library is linked with.
  void* theirs = dlsym(library.handle, "hipModuleLaunchKernel");
  if (theirs == nullptr || theirs == reinterpret_cast<void*>(api.hipModuleLaunchKernel)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it uses another runtime than ", api.library));
}

absl::Status FindVendorSymbols(const VendorLibrary& library, absl::Span<const VendorSymbol> symbols) {
  std::vector<absl::string_view> missing;
  for (const VendorSymbol& symbol : symbols) {
    *symbol.address = dlsym(library.handle, symbol.name);
    if (*symbol.address == nullptr) missing.push_back(symbol.name);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("it lacks ", absl::StrJoin(missing, ", ")));
}

std::string FolderOfFunction(const void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  return error ? "" : path.parent_path().string();
}

bool HasKernelFiles(const std::string& folder, const std::string& library, const char* variable,
                    const std::string& architecture) {
  const std::string machine = architecture.substr(0, architecture.find(':'));
  const auto has_files = [&](const std::filesystem::path& in) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(in, error), end; !error && at != end; at.increment(error)) {
      // "gfx90a" must not be found in "gfx90a0": what follows is no digit or letter of a name.
      const std::string file = at->path().filename().string();
      const size_t found = file.find(machine);
      if (found == std::string::npos) continue;
      const size_t next = found + machine.size();
      if (next == file.size() || !std::isalnum(static_cast<unsigned char>(file[next]))) return true;
    }
    return false;
  };
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') return has_files(named);
  const std::filesystem::path own = std::filesystem::path(folder) / library;
  if (has_files(own / "library")) return true;
  std::error_code error;
  for (std::filesystem::directory_iterator at(own, error), end; !error && at != end; at.increment(error)) {
    if (has_files(at->path() / "library")) return true;  // Debian has a folder for the version
  }
  return false;
}

}  // namespace backplane::hip
