#include "sdk/host/python_wheels.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "sdk/host/elf_file.h"

namespace backplane::host {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> Sorted(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Returns the entries of the group [jax_plugins]: name to module.
std::map<std::string, std::string> EntryPoints(const fs::path& file) {
  std::map<std::string, std::string> entries;
  std::ifstream in(file);
  bool ours = false;
  for (std::string line; std::getline(in, line);) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(text, "[")) ours = text == "[jax_plugins]";
    const size_t split = text.find('=');
    if (!ours || split == absl::string_view::npos) continue;
    const absl::string_view name = absl::StripAsciiWhitespace(text.substr(0, split));
    absl::string_view module = absl::StripAsciiWhitespace(text.substr(split + 1));
    module = module.substr(0, module.find_first_of(":["));  // without the object and the extras
    entries[std::string(name)] = std::string(absl::StripAsciiWhitespace(module));
  }
  return entries;
}

// Returns the shared libraries of a distribution, which RECORD lists relative to the site-packages folder.
std::vector<std::string> RecordedLibraries(const fs::path& record) {
  std::vector<std::string> paths;
  std::ifstream in(record);
  for (std::string line; std::getline(in, line);) {
    std::string path = line.substr(0, line.find(','));
    if (path.size() > 1 && path.front() == '"') path = line.substr(1, line.find('"', 1) - 1);
    if (absl::EndsWith(path, ".so")) paths.push_back(path);
  }
  return paths;
}

bool IsPlugin(const fs::path& library) {
  absl::StatusOr<ElfFile> elf = ReadElf(library.string());
  return elf.ok() && Exports(*elf, "GetPjrtApi");
}

class Environment {
 public:
  Environment(fs::path site, Discovery* found) : site_(std::move(site)), found_(found) {}

  void Scan() {
    for (const fs::path& info : Sorted(site_)) {
      if (info.extension() == ".dist-info") Distribution(info);
    }
    // Folders of the namespace package that no distribution lists.
    for (const fs::path& module : Sorted(site_ / "jax_plugins")) {
      std::error_code error;
      if (fs::is_directory(module, error)) Module(module.filename().string(), module, module.string());
    }
    for (auto& [library, plugin] : plugins_) found_->plugins.push_back(std::move(plugin));
  }

 private:
  void Distribution(const fs::path& info) {
    const std::map<std::string, std::string> entries = EntryPoints(info / "entry_points.txt");
    bool any = false;
    for (const auto& [name, module] : entries) {
      any |= Module(name, site_ / absl::StrReplaceAll(module, {{".", "/"}}), info.string());
    }
    // The library may be in another folder of the wheel than the module that registers it, and libtpu has no entry
    // point.
    for (const std::string& path : RecordedLibraries(info / "RECORD")) {
      const std::string file = fs::path(path).filename().string();
      if (file == "libtpu.so") Add("tpu", site_ / path, info.string());
      // Plugins for hosts other than JAX, named by their folder.
      if (entries.empty() && absl::StrContains(file, "pjrt") && !absl::StrContains(file, ".cpython-")) {
        Add(fs::path(path).parent_path().filename().string(), site_ / path, info.string());
      }
      if (!any && !entries.empty() && !absl::StrContains(file, ".cpython-")) {
        Add(entries.begin()->first, site_ / path, info.string());
      }
    }
  }

  // Adds the libraries in the folder of a module.
  bool Module(const std::string& name, const fs::path& folder, const std::string& origin) {
    bool any = false;
    for (const fs::path& file : Sorted(folder)) {
      if (file.extension() == ".so" && !absl::StrContains(file.filename().string(), ".cpython-"))
        any |= Add(name, file, origin);
    }
    return any;
  }

  bool Add(const std::string& name, const fs::path& library, const std::string& origin) {
    const std::string path = library.lexically_normal().string();
    if (plugins_.count(path) > 0) return true;
    if (!IsPlugin(library)) return false;
    plugins_[path] = FoundPlugin{name, path, "wheel", origin, {}};
    return true;
  }

  const fs::path site_;
  Discovery* const found_;
  std::map<std::string, FoundPlugin> plugins_;  // by library
};

}  // namespace

void FindInPythonEnvironment(const std::string& prefix, Discovery* found) {
  std::error_code error;
  if (!fs::is_directory(prefix, error)) {
    found->problems.push_back(absl::NotFoundError(absl::StrCat(prefix, ": no such Python environment")));
    return;
  }
  std::vector<fs::path> sites;
  for (const char* lib : {"lib", "lib64"}) {
    if (fs::is_symlink(fs::path(prefix) / lib, error)) continue;  // lib64 of a virtual environment points to lib
    for (const fs::path& python : Sorted(fs::path(prefix) / lib)) {
      if (!absl::StartsWith(python.filename().string(), "python")) continue;
      sites.push_back(python / "site-packages");
      sites.push_back(python / "dist-packages");
    }
  }
  for (const fs::path& site : sites) Environment(site, found).Scan();
}

}  // namespace backplane::host
