// Writes a report of each compiled program to a folder that the user names (create option `report`, variable
// TILEDTPU_REPORT).
//
// Each program gets three files with the same base name "p<process>_<number>_<module>": .json (report_json.h), .html
// (the page) and .trace.json (trace_json.h). Any number of threads and processes may share a folder. A name is reserved
// by creating an empty .json. Files are complete when they appear under their names, and the .json is written last.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_FOLDER_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugins/tpu_emulator/report/report_json.h"

namespace backplane::tpu {

// Creates the folder with its parents, if necessary, and checks that it is writable. Call it when a client is created,
// so that the error appears before anything is compiled.
absl::Status CheckReportFolder(const std::string& folder);

struct ReportFiles {
  std::string json, html, trace;  // paths
};

// Writes the files of one program. An error should go to the compile log and must not fail the compilation.
absl::StatusOr<ReportFiles> WriteReport(const std::string& folder, const Schedule& schedule, const Machine& machine,
                                        const ReportFacts& facts);

// Counts the runs of a reported program. The destructor adds the count to the .json and the .html as the member "runs",
// unless it is 0 or the user has removed the files. A process that ends without destroying its programs leaves the
// files unchanged.
class RunCounter {
 public:
  explicit RunCounter(ReportFiles files) : files_(std::move(files)) {}
  ~RunCounter();
  RunCounter(const RunCounter&) = delete;
  RunCounter& operator=(const RunCounter&) = delete;

  // Thread-safe.
  void Add() { runs_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const ReportFiles files_;
  std::atomic<int64_t> runs_{0};
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_FOLDER_H_
