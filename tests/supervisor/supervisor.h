// Runs many numbered work items in child processes, so that a crash or hang of one is a finding and does not end the
// run.
#ifndef BACKPLANE_TESTS_SUPERVISOR_SUPERVISOR_H_
#define BACKPLANE_TESTS_SUPERVISOR_SUPERVISOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace backplane::supervisor {

// Shared by the parent and the working child.
struct Shared {
  std::atomic<uint64_t> index{0};                           // current work item
  std::atomic<int64_t> begun_ms{0}, begun_processor_ms{0};  // its start time, and the child's CPU time then
  std::atomic<uint64_t> counts[4] = {};                     // counters of the caller, over all children
  static constexpr size_t kLogBytes = size_t{1} << 20, kWrongBytes = 8192;
  std::atomic<size_t> log_size{0};
  char log[kLogBytes] = {};      // log of the current work item; cleared before each
  char wrong[kWrongBytes] = {};  // description of a wrong answer, zero-terminated

  // Called in the child. Truncates what does not fit. Thread-safe.
  void Note(absl::string_view text);
};

// A child that ended before its work was done.
struct Finding {
  uint64_t index;
  std::string how;  // "signal 11 (Segmentation fault)", "took too long", or the error that the work item reported
  std::string log;
};

struct Job {
  uint64_t first = 0, count = 0;
  double seconds = 0;  // 0: no limit
  // Runs one work item in a child. Returns a description of the error, or "".
  std::function<std::string(uint64_t index, Shared& shared)> one;
  // Called in the parent.
  std::function<void(const Finding&)> found;
  int max_findings = 1 << 30;  // then it stops
};

struct Totals {
  uint64_t done = 0;  // number of work items, including findings
  int findings = 0;
  uint64_t counts[4] = {};
  double seconds = 0;
};

// A child has 4 GiB of address space (without sanitizers) and writes no core files. A finding is a work item that ends
// the child (by a signal, an exception or an exit), uses more than 10 seconds of CPU time or two minutes of wall-clock
// time, or reports an error. The next child continues with the following item. The caller must have no threads.
Totals RunJob(const Job& job);

}  // namespace backplane::supervisor

#endif  // BACKPLANE_TESTS_SUPERVISOR_SUPERVISOR_H_
