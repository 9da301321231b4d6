#include "plugins/hip/emulated_runtime/faults.h"

#include <functional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace backplane::hip::emulated {
namespace {

hipError_t DefaultErrorOf(absl::string_view function) {
  return function == "hipMalloc" || function == "hipHostMalloc" || function == "hipMallocAsync" ? hipErrorOutOfMemory
                                                                                                : hipErrorUnknown;
}

}  // namespace

absl::Status FaultTable::Parse(absl::string_view text) {
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(part, ':');
    int64_t call = 0;
    int error = 0;
    if (fields.size() < 2 || fields.size() > 3 || fields[0].substr(0, 3) != "hip" ||
        !absl::SimpleAtoi(fields[1], &call) || call < 1 ||
        (fields.size() == 3 && (!absl::SimpleAtoi(fields[2], &error) || error < 1))) {
      return absl::InvalidArgumentError(
          absl::StrCat("HIPEMU_FAIL has \"", part, "\" and should have function:call or function:call:error"));
    }
    Set(fields[0], call, static_cast<hipError_t>(error));
  }
  return absl::OkStatus();
}

void FaultTable::Set(absl::string_view function, int64_t n, hipError_t error) {
  MutexLock lock(mu_);
  Entry& entry = entries_[std::string(function)];
  if (n <= 0) {
    entry.faults.clear();
    return;
  }
  entry.faults.push_back({entry.calls + n, error == hipSuccess ? DefaultErrorOf(function) : error});
}

hipError_t FaultTable::CountCall(absl::string_view function) {
  MutexLock lock(mu_);
  auto found = entries_.find(std::string(function));
  if (found == entries_.end()) found = entries_.emplace(std::string(function), Entry{}).first;
  Entry& entry = found->second;
  ++entry.calls;
  for (size_t i = 0; i < entry.faults.size(); ++i) {
    if (entry.faults[i].call != entry.calls) continue;
    const hipError_t error = entry.faults[i].error;
    entry.faults.erase(entry.faults.begin() + static_cast<std::ptrdiff_t>(i));
    return error;
  }
  return hipSuccess;
}

int64_t FaultTable::calls(absl::string_view function) const {
  MutexLock lock(mu_);
  const auto found = entries_.find(std::string(function));
  return found == entries_.end() ? 0 : found->second.calls;
}

}  // namespace backplane::hip::emulated
