#include "plugins/hip/emulated_runtime/report.h"

#include "absl/strings/str_cat.h"

namespace backplane::hip::emulated {
namespace {
constexpr size_t kMaxReportLines = 1000;
}

void ReportLog::Add(absl::string_view line) {
  MutexLock lock(mu_);
  if (lines_.size() < kMaxReportLines) {
    lines_.emplace_back(line);
  } else {
    ++dropped_;
  }
}

std::string ReportLog::Text() const {
  MutexLock lock(mu_);
  std::string text;
  for (const std::string& line : lines_) absl::StrAppend(&text, line, "\n");
  if (dropped_ > 0) absl::StrAppend(&text, "and ", dropped_, " more\n");
  return text;
}

void ReportLog::Clear() {
  MutexLock lock(mu_);
  lines_.clear();
  dropped_ = 0;
}

ReportLog& Report() {
  static ReportLog* log = new ReportLog;  // threads may use it until the process ends
  return *log;
}

}  // namespace backplane::hip::emulated
