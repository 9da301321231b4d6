// Does work that opens plugins in a child process, so that a plugin that crashes, hangs or ends the process does so
// there, and the command says what it was and in which call.
//
// The child is a fork of the command before it has opened anything or started a thread. It prints its results by
// itself; what its parent hears of is kept in a page that both see: the call that is going on, and how the work ended.
#ifndef BACKPLANE_SDK_CLI_SUPERVISE_H_
#define BACKPLANE_SDK_CLI_SUPERVISE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace backplane::cli {

struct PluginLimits {
  double start = 60;  // seconds a plugin may take to come up: opened, initialized, its client made
  double call = 600;  // seconds any other call into a plugin may take, waiting for results among them; 0: no limit
  bool in_process = false;  // no child: for debuggers
};

// Runs `work` in a child. Its return value, the exit code, comes back in `*exit_code`. An error is one sentence: what
// became of the child, in which call of which plugin. ABORTED for a crash or an exit, DEADLINE_EXCEEDED for a hang;
// INTERNAL when no plugin was opened and so it cannot be one's fault.
//
// A child that ends by a signal that somebody sent it, such as Ctrl-C's, ends this process by the same signal.
absl::Status Supervise(const PluginLimits& limits, const std::function<int()>& work, int* exit_code);

// Within the work: from now on this plugin comes up, until the object goes. Nothing outside of a child.
class ComingUp {
 public:
  explicit ComingUp(const std::string& library);
  ~ComingUp();
  ComingUp(const ComingUp&) = delete;
  ComingUp& operator=(const ComingUp&) = delete;
};

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SUPERVISE_H_
