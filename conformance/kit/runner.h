// Runs checks in processes of their own, several at a time. (Operations share a process until one does not pass.) If a
// plugin crashes, aborts, exits or hangs, that is the outcome of one check.
#ifndef BACKPLANE_CONFORMANCE_KIT_RUNNER_H_
#define BACKPLANE_CONFORMANCE_KIT_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "conformance/kit/check.h"

namespace backplane::conformance {

// The first argument of a process that runs checks (child.h).
inline constexpr char kChildFlag[] = "--conform-child";

struct RunnerOptions {
  std::string program;                       // this executable; it handles `--conform-child` (child.h)
  std::vector<std::string> child_arguments;  // plugin, create options and so on, as on the command line
  int jobs = 1;
  int limit_s = 20;         // for checks without a limit
  double limit_factor = 1;  // for slow machines and sanitizers
};

struct Job {
  std::string id, meaning;
  int limit_s = 0;
  bool advice = false;
  bool shares_process = false;  // may run after other jobs of this kind in one process
};

struct RunnerReport {
  std::vector<CheckOutcome> outcomes;  // in the order of the jobs
  std::vector<std::string> printed;    // what the plugin wrote to standard output: "id: text"
  double seconds = 0;
};

// Calls `progress` on this thread after each outcome.
RunnerReport RunJobs(const RunnerOptions& options, const std::vector<Job>& jobs,
                     const std::function<void(const CheckOutcome&, size_t done, size_t all)>& progress);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_RUNNER_H_
