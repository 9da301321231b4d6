// Reports of programs as they are compiled, in a folder that the user named (create option `report`, variable
// TILEDTPU_REPORT).
//
// Each program writes three files of one name, "p<process>_<number>_<module>": .json (report_json.h), .html (the page)
// and .trace.json (trace_json.h). Any number of threads and processes may share a folder: names are reserved by
// creating them. A file appears under its name when it is whole, the .json last; a reservation is an empty .json.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_FOLDER_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugins/tpu_emulator/report/report_json.h"

namespace backplane::tpu {

// Makes the folder, with those above it, where it is not there, and writes a file into it as a trial. For the creation
// of a client, so that a folder that cannot be written is told before anything is compiled.
absl::Status CheckReportFolder(const std::string& folder);

struct ReportFiles {
  std::string json, html, trace;  // paths
};

// For a compile, which an error must not fail: it belongs in the compile log.
absl::StatusOr<ReportFiles> WriteReport(const std::string& folder, const Schedule& schedule, const Machine& machine,
                                        const ReportFacts& facts);

// How often a reported program was run, for whoever runs it. When the object goes, the count is put into the .json and
// the .html as the member "runs", unless it is 0 or the user has taken the files away. A process that ends without
// letting go of its programs leaves the files as they were.
class ReportedRuns {
 public:
  explicit ReportedRuns(ReportFiles files) : files_(std::move(files)) {}
  ~ReportedRuns();
  ReportedRuns(const ReportedRuns&) = delete;
  ReportedRuns& operator=(const ReportedRuns&) = delete;

  // Thread-safe.
  void Add() { runs_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const ReportFiles files_;
  std::atomic<int64_t> runs_{0};
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_FOLDER_H_
