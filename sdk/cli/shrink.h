// Makes a session that shows a difference smaller, until everything in it is needed.
#ifndef BACKPLANE_SDK_CLI_SHRINK_H_
#define BACKPLANE_SDK_CLI_SHRINK_H_

#include <string>
#include <vector>

#include "sdk/cli/replay_compare.h"

namespace backplane::cli {

struct ShrinkResult {
  uint64_t operations_before = 0, operations_after = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
  uint64_t tried = 0;   // sessions that were replayed
  uint64_t target = 0;  // the operation that differs; 0 when the plugin crashes or hangs
  std::string how;      // "read", "error", or what became of the plugin
  uint64_t cut = 0;     // the operation before which contents stand in for what made them; 0: none
};

// Writes the smaller session to `path`. With two plugins the second says what is expected, also in the file that is
// written; with one it is what was recorded. Each attempt runs in a child process.
//
// First what the differing operation does not need is left out. With a second plugin, operations are then replaced by
// the contents of the buffers they made there, as many from the beginning as leave the difference in place, and if the
// first operation behind shows the difference in what it makes, that is read in place of what the host read. At last
// parts are left out by trial. FAILED_PRECONDITION when the session shows no difference.
absl::StatusOr<ShrinkResult> Shrink(const record::SessionReader& session, const std::vector<std::string>& plugins,
                                    const PluginOptions& plugin_options, const CompareOptions& options,
                                    const std::string& path, Terminal& terminal);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_SHRINK_H_
