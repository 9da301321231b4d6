#include "core/passes/debugging.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/passes/pass.h"

namespace backplane {
namespace {

absl::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

bool IsSet(const char* name) {
  const absl::string_view value = Variable(name);
  return !value.empty() && value != "0";
}

// Module names come from the host. Characters that are not allowed in file names become '_'.
std::string FileName(absl::string_view text) {
  std::string out(text.substr(0, 80));
  for (char& c : out) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return out;
}

}  // namespace

PassDebugging PassDebugging::FromEnvironment() {
  PassDebugging debugging;
  debugging.verify = IsSet("BACKPLANE_VERIFY_PASSES");
  debugging.time_each = IsSet("BACKPLANE_TIME_PASSES");
  debugging.disabled = absl::StrSplit(Variable("BACKPLANE_DISABLE_PASSES"), ',', absl::SkipWhitespace());
  debugging.dump_folder = std::string(Variable("BACKPLANE_DUMP_PASSES"));
  return debugging;
}

const PassDebugging& PassDebugging::OfProcess() {
  static const PassDebugging* const debugging = new PassDebugging(FromEnvironment());
  return *debugging;
}

absl::StatusOr<bool> PassDebugging::IsDisabled(const Pass& pass) const {
  if (std::find(disabled.begin(), disabled.end(), pass.name()) == disabled.end()) return false;
  if (pass.IsRequired()) {
    return absl::InvalidArgumentError(
        absl::StrCat("pass ", pass.name(), " cannot be left out: later passes count on it"));
  }
  return true;
}

int64_t NextDumpNumber() {
  static std::atomic<int64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

absl::Status DumpModule(const std::string& folder, int64_t number, absl::string_view module_name,
                        absl::string_view pass, absl::string_view when, absl::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path =
      absl::StrFormat("%s/%06d.%s.%s.%s.hlo", folder, number, FileName(module_name), FileName(pass), when);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("BACKPLANE_DUMP_PASSES: cannot write ", path));
  return absl::OkStatus();
}

}  // namespace backplane
