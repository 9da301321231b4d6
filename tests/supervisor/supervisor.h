// Runs many numbered pieces of work in child processes, so that a crash or a hang of one is a finding and not the end.
#ifndef BACKPLANE_TESTS_SUPERVISOR_SUPERVISOR_H_
#define BACKPLANE_TESTS_SUPERVISOR_SUPERVISOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace backplane::supervisor {

// Shared by the parent and the child that works.
struct Shared {
  std::atomic<uint64_t> index{0};                           // of the piece that is being done
  std::atomic<int64_t> begun_ms{0}, begun_processor_ms{0};  // when it began, and the child's processor time then
  std::atomic<uint64_t> counts[4] = {};                     // what the work wants to count over all children
  static constexpr size_t kLogBytes = size_t{1} << 20, kWrongBytes = 8192;
  std::atomic<size_t> log_size{0};
  char log[kLogBytes] = {};      // what the piece under way has noted; emptied before each
  char wrong[kWrongBytes] = {};  // what an unexpected answer was; ends with a zero

  // In the child. What does not fit is left out. Thread-safe.
  void Note(absl::string_view text);
};

// The end of a child before all was done.
struct Finding {
  uint64_t index;
  std::string how;  // "signal 11 (Segmentation fault)", "took too long", or what the work said was wrong
  std::string log;
};

struct Job {
  uint64_t first = 0, count = 0;
  double seconds = 0;  // 0: no limit
  // In a child: does one piece. What it returns is what was wrong; empty: nothing was.
  std::function<std::string(uint64_t index, Shared& shared)> one;
  // In the parent.
  std::function<void(const Finding&)> found;
  int max_findings = 1 << 30;  // then it stops
};

struct Totals {
  uint64_t done = 0;  // pieces, with those that were findings
  int findings = 0;
  uint64_t counts[4] = {};
  double seconds = 0;
};

// A child has 4 GiB of address space (without sanitizers) and no core files. A finding is a piece that ends the child
// (a signal, an exception, an exit), takes more than 10 seconds of processor time or two minutes by the clock, or says
// that something was wrong; the next child goes on with the piece after it. The caller has no threads.
Totals RunJob(const Job& job);

}  // namespace backplane::supervisor

#endif  // BACKPLANE_TESTS_SUPERVISOR_SUPERVISOR_H_
