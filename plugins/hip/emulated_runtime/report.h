// The report: what the emulated runtime found wrong with the calls that it got, in sentences.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_REPORT_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace backplane::hip::emulated {

// Thread-safe.
class ReportLog {
 public:
  // Appends a line. Lines beyond the first 1000 are only counted.
  void Add(absl::string_view line);
  // Returns all lines, each with its line end.
  std::string Text() const;
  void Clear();

 private:
  mutable Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
  int64_t dropped_ ABSL_GUARDED_BY(mu_) = 0;
};

// Returns the report of the process.
ReportLog& Report();

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_REPORT_H_
