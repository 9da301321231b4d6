#include "plugins/tpu_emulator/report/report_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/types/status_macros.h"
#include "plugins/tpu_emulator/report/trace_json.h"
#include "sdk/report/page.h"

namespace backplane::tpu {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxReports = 1'000'000;
constexpr size_t kMaxNameBytes = 80;

absl::Status FileError(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("report: ", path));
}

absl::Status WriteAll(int file, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = write(file, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path, errno);
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// Writes to another name first, so that no reader sees a partial file.
absl::Status WriteFile(const std::string& path, absl::string_view data) {
  const std::string part = absl::StrCat(path, ".part");
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return FileError(part, errno);
  absl::Status status = WriteAll(file, data, part);
  if (close(file) != 0 && status.ok()) status = FileError(part, errno);
  if (status.ok() && rename(part.c_str(), path.c_str()) != 0) status = FileError(path, errno);
  if (!status.ok()) unlink(part.c_str());
  return status;
}

// Replaces characters of a module's name that some file systems do not support.
std::string MakeFileName(absl::string_view module) {
  std::string name;
  for (char c : module.substr(0, kMaxNameBytes)) {
    name.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_');
  }
  return name.empty() ? "program" : name;
}

}  // namespace

RunCounter::~RunCounter() {
  const int64_t runs = runs_.load(std::memory_order_relaxed);
  if (runs == 0) return;
  std::ifstream file(files_.json, std::ios::binary);
  std::string document((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file || document.empty() || document.back() != '}') return;
  document.back() = ',';
  absl::StrAppend(&document, "\"runs\":", runs, "}");
  // An error cannot be reported here. The files are complete either way.
  if (WriteFile(files_.html, report::FormatPage({{"", document}})).ok()) WriteFile(files_.json, document).IgnoreError();
}

absl::Status CheckReportFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FileError(folder, error.value());
  const std::string trial = absl::StrCat(folder, "/.trial.p", getpid());
  const int file = open(trial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return FileError(folder, errno);
  close(file);
  unlink(trial.c_str());
  return absl::OkStatus();
}

absl::StatusOr<ReportFiles> WriteReport(const std::string& folder, const Schedule& schedule, const Machine& machine,
                                        const ReportFacts& facts) {
  // A hint for the next free number. Creating the file decides.
  static std::atomic<int64_t> next{1};
  const std::string module = MakeFileName(schedule.module_name);
  std::string base;
  for (int64_t tries = 0; base.empty(); ++tries) {
    const std::string candidate = absl::StrFormat("%s/p%d_%04d_%s", folder, getpid(), next.fetch_add(1), module);
    const int file = open(absl::StrCat(candidate, ".json").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) {
      close(file);
      base = candidate;
    } else if (errno != EEXIST || tries == kMaxReports) {
      return FileError(folder, errno);
    }
  }
  ReportFiles files{absl::StrCat(base, ".json"), absl::StrCat(base, ".html"), absl::StrCat(base, ".trace.json")};
  const std::string document = WriteReportJson(schedule, machine, facts);
  absl::Status status = WriteFile(files.trace, WriteTraceJson(schedule));
  if (status.ok()) status = WriteFile(files.html, report::FormatPage({{"", document}}));
  if (status.ok()) status = WriteFile(files.json, document);
  if (!status.ok()) {
    for (const std::string& path : {files.json, files.html, files.trace}) unlink(path.c_str());
    return status;
  }
  return files;
}

}  // namespace backplane::tpu
