#include "plugins/hip/emulated_runtime/settings.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::hip::emulated {
namespace {

// The number in the variable, or `otherwise` if it is not set.
absl::StatusOr<int64_t> ReadNumber(const char* variable, int64_t otherwise, int64_t least, int64_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(variable, " is \"", text, "\" and should be a number from ", least, " to ", most));
  }
  return value;
}

}  // namespace

absl::StatusOr<Settings> ReadSettings() {
  Settings settings;
  ASSIGN_OR_RETURN(const int64_t devices, ReadNumber("HIPEMU_DEVICES", settings.devices, 0, 64));
  settings.devices = static_cast<int>(devices);
  ASSIGN_OR_RETURN(const int64_t memory,
                   ReadNumber("HIPEMU_MEMORY", static_cast<int64_t>(settings.memory), 4096, int64_t{1} << 40));
  settings.memory = static_cast<size_t>(memory);
  ASSIGN_OR_RETURN(settings.latency_us, ReadNumber("HIPEMU_LATENCY_US", 0, 0, 10'000'000));
  ASSIGN_OR_RETURN(const int64_t strict, ReadNumber("HIPEMU_STRICT_ORDER", 1, 0, 1));
  settings.strict_order = strict == 1;
  ASSIGN_OR_RETURN(const int64_t threads, ReadNumber("HIPEMU_THREADS", settings.threads, 1, 2));
  settings.threads = static_cast<int>(threads);
  ASSIGN_OR_RETURN(const int64_t poison,
                   ReadNumber("HIPEMU_POISON", static_cast<int64_t>(settings.poison), 0, int64_t{1} << 40));
  settings.poison = static_cast<size_t>(poison);
  if (const char* name = std::getenv("HIPEMU_ARCH"); name != nullptr && *name != '\0') {
    settings.architecture = name;
    if (settings.architecture != "gfx942" && settings.architecture != "gfx1100") {
      return absl::InvalidArgumentError(absl::StrCat("HIPEMU_ARCH is \"", name, "\" and should be gfx942 or gfx1100"));
    }
  }
  if (const char* faults = std::getenv("HIPEMU_FAIL"); faults != nullptr) settings.faults = faults;
  if (const char* path = std::getenv("HIPEMU_REPORT"); path != nullptr) settings.report_path = path;
  return settings;
}

}  // namespace backplane::hip::emulated
