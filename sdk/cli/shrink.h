// Reduces a session that shows a difference to the operations that are needed for it.
#ifndef BACKPLANE_SDK_CLI_SHRINK_H_
#define BACKPLANE_SDK_CLI_SHRINK_H_

#include <string>
#include <vector>

#include "sdk/cli/replay_compare.h"

namespace backplane::cli {

struct ShrinkResult {
  uint64_t operations_before = 0, operations_after = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
  uint64_t tried = 0;   // number of sessions that were replayed
  uint64_t target = 0;  // the operation that differs; 0 if the plugin crashes or hangs
  std::string how;      // "read", "error", or what happened to the plugin
  uint64_t split = 0;   // the operation before which data replaces the operations that computed it; 0: none
};

// Writes the smaller session to `path`. With two plugins the second provides the expected results, also in the new
// file; with one plugin the recording does. Each attempt runs in a child process.
//
// First, operations that the differing one does not need are removed. With a second plugin, the first operations are
// then replaced by the contents of the buffers that they created there, as many as possible while the difference stays.
// If the first operation after them shows the difference in its results, these are read instead of what the host read.
// Finally, operations are removed by trial. Returns FAILED_PRECONDITION if the session shows no difference.
absl::StatusOr<ShrinkResult> Shrink(const record::SessionReader& session, const std::vector<std::string>& plugins,
                                    const PluginOptions& plugin_options, const CompareOptions& options,
                                    const std::string& path, Terminal& terminal);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SHRINK_H_
