// Runs checks, each in a process of its own (operations: many in one, a new one after each that does not pass), several
// at a time. Whatever a plugin does to its process - crash, abort, exit, hang - is the outcome of one check.
#ifndef BACKPLANE_CONFORMANCE_KIT_RUNNER_H_
#define BACKPLANE_CONFORMANCE_KIT_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "conformance/kit/check.h"

namespace backplane::conformance {

// The first word of the command line of a process in which checks run (child.h).
inline constexpr char kChildWord[] = "--conform-child";

struct RunnerOptions {
  std::string program;                       // this executable; it answers `--conform-child` (child.h)
  std::vector<std::string> child_arguments;  // plugin, create options and so on, as the command line has them
  int jobs = 1;
  int limit_s = 20;         // for a check that names none
  double limit_factor = 1;  // for slow machines and sanitizers
};

struct Job {
  std::string id, meaning;
  int limit_s = 0;
  bool advice = false;
  bool shares_process = false;  // may run after others of its kind in one process
};

struct RunnerReport {
  std::vector<CheckOutcome> outcomes;  // in the order of the jobs
  std::vector<std::string> printed;    // what the plugin wrote to standard output: "id: words"
  double seconds = 0;
};

// `progress` is called from this thread after each outcome.
RunnerReport RunJobs(const RunnerOptions& options, const std::vector<Job>& jobs,
                     const std::function<void(const CheckOutcome&, size_t done, size_t all)>& progress);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_RUNNER_H_
