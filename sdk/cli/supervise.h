// Runs work that opens plugins in a child process. If a plugin crashes, hangs or ends the process, the command reports
// what happened and in which call.
//
// The child is a fork of the command before it has opened anything or started a thread. It prints its results itself.
// It writes the current call, and how the work ended, to a page that it shares with its parent.
#ifndef BACKPLANE_SDK_CLI_SUPERVISE_H_
#define BACKPLANE_SDK_CLI_SUPERVISE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace backplane::cli {

struct PluginLimits {
  double start = 60;        // seconds to open and initialize a plugin and to create its client
  double call = 600;        // seconds for any other call of a plugin, including waits for results; 0: no limit
  bool in_process = false;  // no child process, for debuggers
};

// Runs `work` in a child. Its return value, the exit code, is stored in `*exit_code`. An error is one sentence: what
// happened to the child, in which call of which plugin. The code is ABORTED for a crash or an exit, DEADLINE_EXCEEDED
// for a hang, INTERNAL if no plugin was opened and so none can be at fault.
//
// If the child is ended by a signal from outside, such as Ctrl-C's, this process ends by the same signal.
absl::Status Supervise(const PluginLimits& limits, const std::function<int()>& work, int* exit_code);

// Used within the work: this plugin is being opened while the object exists. Does nothing outside of a child.
class PluginStartup {
 public:
  explicit PluginStartup(const std::string& library);
  ~PluginStartup();
  PluginStartup(const PluginStartup&) = delete;
  PluginStartup& operator=(const PluginStartup&) = delete;
};

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SUPERVISE_H_
