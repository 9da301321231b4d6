#include "sdk/host/discovery.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "sdk/host/json.h"
#include "sdk/host/python_wheels.h"
#include "sdk/host/status.h"

namespace backplane::host {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxManifestBytes = 1 << 20;

std::string Variable(const char* name, const std::string& otherwise = "") {
  const char* value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::vector<std::string> SplitPath(const std::string& list) { return absl::StrSplit(list, ':', absl::SkipEmpty()); }

absl::StatusOr<NamedValue> Option(const std::string& name, const Json& value) {
  if (const std::string* text = value.string()) return NamedValue(name, *text);
  if (const bool* flag = value.boolean()) return NamedValue(name, *flag);
  if (const int64_t* number = value.integer()) return NamedValue(name, *number);
  if (const double* real = value.real()) return NamedValue(name, static_cast<float>(*real));
  if (const Json::Array* elements = value.array()) {
    std::vector<int64_t> numbers;
    for (const Json& element : *elements) {
      if (element.integer() == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("option '", name, "': a list holds whole numbers only"));
      }
      numbers.push_back(*element.integer());
    }
    return NamedValue(name, std::move(numbers));
  }
  return absl::InvalidArgumentError(absl::StrCat("option '", name, "': expected a string, number, boolean or list"));
}

void FromEnvironment(Discovery* found) {
  constexpr char kVariable[] = "PJRT_NAMES_AND_LIBRARY_PATHS";
  const std::vector<std::string> entries = absl::StrSplit(Variable(kVariable), ',', absl::SkipWhitespace());
  for (const std::string& entry : entries) {
    const size_t split = entry.find(':');
    if (split == std::string::npos || split == 0 || split + 1 == entry.size()) {
      found->problems.push_back(
          absl::InvalidArgumentError(absl::StrCat(kVariable, ": '", entry, "' is not name:path")));
      continue;
    }
    FoundPlugin plugin;
    const std::string path = entry.substr(split + 1);
    if (absl::EndsWith(path, ".json")) {
      absl::StatusOr<FoundPlugin> manifest = ReadManifest(path);
      if (!manifest.ok()) {
        found->problems.push_back(manifest.status());
        continue;
      }
      plugin = *std::move(manifest);
    } else {
      plugin.library = path;
    }
    plugin.name = entry.substr(0, split);
    plugin.source = "environment";
    plugin.origin = kVariable;
    found->plugins.push_back(std::move(plugin));
  }
}

std::vector<std::string> ManifestPlaces() {
  std::vector<std::string> places = SplitPath(Variable("BACKPLANE_PLUGIN_PATH"));
  const std::string home = Variable("HOME");
  auto add = [&](const std::string& folder) { places.push_back(absl::StrCat(folder, "/backplane/plugins.d")); };
  auto add_home = [&](const char* variable, const char* under) {
    const std::string folder = Variable(variable, home.empty() ? "" : absl::StrCat(home, under));
    if (!folder.empty()) add(folder);
  };
  add_home("XDG_CONFIG_HOME", "/.config");
  for (const std::string& folder : SplitPath(Variable("XDG_CONFIG_DIRS", "/etc/xdg"))) add(folder);
  add_home("XDG_DATA_HOME", "/.local/share");
  for (const std::string& folder : SplitPath(Variable("XDG_DATA_DIRS", "/usr/local/share:/usr/share"))) add(folder);
  return places;
}

void FromManifests(const std::vector<std::string>& more, Discovery* found) {
  std::vector<std::string> places = ManifestPlaces();
  places.insert(places.end(), more.begin(), more.end());
  std::set<fs::path> seen;
  for (const std::string& place : places) {
    std::error_code error;
    std::set<fs::path> files;  // sorted by name
    if (fs::is_regular_file(place, error)) {
      files.insert(place);
    } else {
      for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error)) {
        if (it->path().extension() == ".json") files.insert(it->path());
      }
    }
    for (const fs::path& file : files) {
      if (const fs::path whole = fs::weakly_canonical(file, error); !error && !seen.insert(whole).second) continue;
      absl::StatusOr<FoundPlugin> plugin = ReadManifest(file.string());
      if (plugin.ok()) {
        found->plugins.push_back(*std::move(plugin));
      } else {
        found->problems.push_back(plugin.status());
      }
    }
  }
}

}  // namespace

absl::StatusOr<FoundPlugin> ReadManifest(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  if (size > kMaxManifestBytes)
    return absl::InvalidArgumentError(absl::StrCat(path, ": larger than a manifest can be"));
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Json> json = Json::Parse(text.str());
  if (!json.ok()) return AddContext(json.status(), path);
  auto refuse = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", why)); };
  if (json->object() == nullptr) return refuse("a manifest is an object");
  const Json* library = json->Find("library_path");
  if (library == nullptr || library->string() == nullptr || library->string()->empty()) {
    return refuse("expected a string library_path");
  }
  FoundPlugin plugin;
  plugin.name = fs::path(path).stem().string();
  if (const Json* name = json->Find("name"); name != nullptr) {
    if (name->string() == nullptr || name->string()->empty()) return refuse("name is not a string");
    plugin.name = *name->string();
  }
  plugin.library = *library->string();
  if (absl::StrContains(plugin.library, '/') && plugin.library[0] != '/') {
    plugin.library = (fs::absolute(path).parent_path() / plugin.library).lexically_normal().string();
  }
  plugin.source = "manifest";
  plugin.origin = path;
  if (const Json* options = json->Find("create_options"); options != nullptr) {
    if (options->object() == nullptr) return refuse("create_options is not an object");
    for (const auto& [name, value] : *options->object()) {
      absl::StatusOr<NamedValue> option = Option(name, value);
      if (!option.ok()) return AddContext(option.status(), path);
      plugin.create_options.push_back(*std::move(option));
    }
  }
  return plugin;
}

std::vector<std::string> FindManifestsOfThisProgram() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path folder = self.parent_path().parent_path() / "share/backplane/plugins.d";
  return fs::is_directory(folder, error) ? std::vector<std::string>{folder.string()} : std::vector<std::string>{};
}

Discovery Discover(const DiscoveryOptions& options) {
  Discovery found;
  FromEnvironment(&found);
  FromManifests(options.manifest_folders, &found);
  std::vector<std::string> prefixes = options.python_prefixes;
  if (const std::string active = Variable("VIRTUAL_ENV"); prefixes.empty() && !active.empty())
    prefixes.push_back(active);
  for (const std::string& prefix : prefixes) FindInPythonEnvironment(prefix, &found);
  return found;
}

absl::StatusOr<FoundPlugin> FindPlugin(const std::string& what, const DiscoveryOptions& options) {
  if (absl::EndsWith(what, ".json")) return ReadManifest(what);
  if (absl::StrContains(what, '/') || absl::EndsWith(what, ".so")) {
    // The dynamic linker searches for a bare name, unless there is such a file in the folder of the manifest.
    std::error_code error;
    const bool here = !absl::StrContains(what, '/') && fs::exists(what, error);
    return FoundPlugin{fs::path(what).stem().string(), here ? absl::StrCat("./", what) : what, "path", what, {}};
  }
  const Discovery found = Discover(options);
  std::vector<std::string> names;
  for (const FoundPlugin& plugin : found.plugins) {
    if (plugin.name == what) return plugin;
    names.push_back(plugin.name);
  }
  std::string message =
      absl::StrCat("plugin '", what, "': no such plugin; found ", names.empty() ? "none" : absl::StrJoin(names, ", "));
  for (const absl::Status& problem : found.problems) absl::StrAppend(&message, "; ", problem.message());
  return absl::NotFoundError(message);
}

}  // namespace backplane::host
