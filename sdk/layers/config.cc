#include "sdk/layers/config.h"

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "sdk/host/json.h"
#include "sdk/host/status.h"

namespace backplane::layers {
namespace {

using host::Json;

constexpr size_t kMaxManifest = size_t{1} << 20;  // bytes

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Returns the value of an option as text.
absl::StatusOr<std::string> OptionText(const std::string& path, const std::string& name, const Json& value) {
  if (value.string() != nullptr) return *value.string();
  if (value.integer() != nullptr || value.real() != nullptr) return value.Text();
  if (value.boolean() != nullptr) return std::string(*value.boolean() ? "1" : "0");
  return Wrong(path, absl::StrCat("option '", name, "' is not text, a number or a truth value"));
}

absl::StatusOr<Config> ReadManifest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  std::string text(kMaxManifest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxManifest) return Wrong(path, "longer than 1 MiB, not a manifest");
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return host::AddContext(json.status(), path);
  if (json->object() == nullptr) return Wrong(path, "not a JSON object");
  Config config;
  for (const auto& [name, value] : *json->object()) {
    if (name == "plugin") {
      if (value.string() == nullptr) return Wrong(path, "'plugin' is not text");
      config.plugin = *value.string();
      const size_t slash = path.rfind('/');
      if (!absl::StartsWith(config.plugin, "/") && slash != std::string::npos) {
        config.plugin = absl::StrCat(path.substr(0, slash + 1), config.plugin);
      }
    } else if (name == "layers") {
      if (value.array() == nullptr) return Wrong(path, "'layers' is not a list");
      for (const Json& layer : *value.array()) {
        if (layer.string() != nullptr) {
          config.layers.emplace_back(*layer.string(), std::vector<std::pair<std::string, std::string>>());
          continue;
        }
        const Json* layer_name = layer.Find("name");
        if (layer_name == nullptr || layer_name->string() == nullptr) {
          return Wrong(path, "each layer is a name, or an object with a 'name'");
        }
        std::vector<std::pair<std::string, std::string>> values;
        for (const auto& [key, option] : *layer.object()) {
          if (key == "name") continue;
          BP_ASSIGN_OR_RETURN(std::string option_text, OptionText(path, key, option));
          values.emplace_back(key, option_text);
        }
        config.layers.emplace_back(*layer_name->string(), std::move(values));
      }
    } else {
      return Wrong(path, absl::StrCat("no member '", name, "', expected 'plugin' or 'layers'"));
    }
  }
  return config;
}

}  // namespace

absl::StatusOr<Config> ReadConfig(const std::string& library, const std::function<const char*(const char*)>& variable) {
  auto get = [&](const char* name) -> std::string {
    const char* value = variable(name);
    return value == nullptr ? "" : value;
  };
  Config config;
  const std::string beside = absl::StrCat(absl::StripSuffix(library, ".so"), ".json");
  absl::StatusOr<Config> own = ReadManifest(beside);
  if (!own.ok() && own.status().code() != absl::StatusCode::kNotFound) return own.status();
  if (own.ok()) config = *std::move(own);
  if (const std::string path = get("BACKPLANE_LAYERS_MANIFEST"); !path.empty()) {
    BP_ASSIGN_OR_RETURN(Config named, ReadManifest(path));
    if (config.plugin.empty() && get("BACKPLANE_LAYERS_PLUGIN").empty()) config.plugin = named.plugin;
    if (!named.layers.empty()) config.layers = std::move(named.layers);
  }
  if (config.plugin.empty()) config.plugin = get("BACKPLANE_LAYERS_PLUGIN");
  if (config.plugin.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no plugin to put layers on: set BACKPLANE_LAYERS_PLUGIN to its library, or write ", beside));
  }
  if (const std::string names = get("BACKPLANE_LAYERS"); !names.empty()) {
    // Options in the manifest apply to a layer even if the variable names the layers.
    std::vector<Options> chosen;
    for (absl::string_view piece : absl::StrSplit(names, ',')) {
      const absl::string_view name = absl::StripAsciiWhitespace(piece);
      if (name.empty())
        return absl::InvalidArgumentError(absl::StrCat("BACKPLANE_LAYERS: '", names, "' has an empty name"));
      Options options(name, {});
      for (const Options& known : config.layers) {
        if (known.layer() == name) options = known;
      }
      chosen.push_back(std::move(options));
    }
    config.layers = std::move(chosen);
  }
  return config;
}

absl::StatusOr<std::vector<std::unique_ptr<Layer>>> MakeLayers(const Config& config) {
  std::vector<std::unique_ptr<Layer>> layers;
  for (const Options& options : config.layers) {
    BP_ASSIGN_OR_RETURN(std::unique_ptr<Layer> layer, MakeLayerByName(options.layer(), options));
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace backplane::layers
