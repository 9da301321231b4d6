// The process that runs checks: `conform --conform-child RESULT_FD TRAIL_FD PLUGIN [options] --run ID...`, or another
// program that calls ChildMain (judge.h).
#ifndef BACKPLANE_CONFORMANCE_KIT_CHILD_H_
#define BACKPLANE_CONFORMANCE_KIT_CHILD_H_

#include <string>
#include <vector>

#include "conformance/kit/kit.h"

namespace backplane::conformance {

// Runs the checks in order and returns the exit status. A check that does not pass ends the process itself.
int RunChild(Kit::Setup setup, const std::vector<std::string>& ids);

// The id of a pseudo check that describes the plugin: its detail is a JSON object.
inline constexpr char kFactsId[] = "kit.facts";

// A process that was started from within a check.
struct NewProcess {
  int pid = -1;
  int result_fd = -1;
};
// Starts one, which runs the check `id` with `input` in a file. Not thread-safe.
NewProcess StartProcess(Kit& k, const std::string& id, const std::string& input);
// Waits for its end. Returns what it reported. Thread-safe.
CheckOutcome JoinProcess(const NewProcess& process, const std::string& id);

// Starts another such process from within a check, for tests across processes. It runs `id` (a check or one of the
// helpers below) with `input` in a file. Returns what the process reported.
CheckOutcome RunInNewProcess(Kit& k, const std::string& id, const std::string& input);
// Returns the input inside such a process.
std::string ReadChildInput();

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CHILD_H_
