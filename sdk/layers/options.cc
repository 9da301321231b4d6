#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "sdk/layers/layer.h"

namespace backplane::layers {
namespace {

std::string VariableOf(absl::string_view layer, absl::string_view name) {
  return absl::AsciiStrToUpper(absl::StrCat("BACKPLANE_", layer, "_", name));
}

}  // namespace

std::string Options::Get(absl::string_view name) const {
  if (const char* set = getenv(VariableOf(layer_, name).c_str()); set != nullptr && *set != '\0') return set;
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  return "";
}

absl::StatusOr<int64_t> Options::GetInt(absl::string_view name, int64_t fallback) const {
  const std::string text = Get(name);
  if (text.empty()) return fallback;
  int64_t value;
  if (absl::SimpleAtoi(text, &value)) return value;
  return absl::InvalidArgumentError(absl::StrCat(layer_, ": ", name, " is '", text, "', expected an integer"));
}

absl::StatusOr<bool> Options::GetBool(absl::string_view name, bool fallback) const {
  const std::string text = Get(name);
  if (text.empty()) return fallback;
  bool value;
  if (absl::SimpleAtob(text, &value)) return value;
  return absl::InvalidArgumentError(absl::StrCat(layer_, ": ", name, " is '", text, "', expected 0 or 1"));
}

std::string Options::GetPath(absl::string_view name, absl::string_view fallback) const {
  std::string text = Get(name);
  if (text.empty()) text = std::string(fallback);
  return absl::StrReplaceAll(text, {{"%%", "%"}, {"%p", absl::StrCat(getpid())}});
}

absl::Status Options::CheckNames(std::initializer_list<absl::string_view> known) const {
  for (const auto& [key, value] : values_) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(layer_, ": no option '", key, "', expected one of ", absl::StrJoin(known, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace backplane::layers
