// A recorded session done again and compared: with what the host read when it was recorded, or with a second plugin.
#ifndef BACKPLANE_SDK_CLI_REPLAY_COMPARE_H_
#define BACKPLANE_SDK_CLI_REPLAY_COMPARE_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sdk/cli/session.h"
#include "sdk/cli/terminal.h"
#include "sdk/cli/ulp.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/slice.h"

namespace backplane::cli {

struct CompareOptions {
  Tolerance tolerance;
  double relative = 0;  // of the largest finite magnitude of what is expected: adds to the absolute one
  uint64_t until = 0;   // the last operation to do; 0: all
  const record::Selection* keep = nullptr;  // only these; null: all
  bool stop_at_first = false;               // end with the first difference
  bool session_options = true;              // give clients the create options of the session
  bool timing = false;                      // wait for the results of each execution
};

// One thing the host read.
struct ReadRow {
  uint64_t number = 0;  // of the operation by which the host learned that the read was complete
  std::string what;     // "output 3 of jit_step"
  std::string shape;
  bool agrees = true;
  bool identical = false;  // bit by bit
  bool measured = true;    // false: only a digest is there to compare with
  Difference difference;
};

struct ReplayReport {
  uint64_t done = 0, last = 0;  // operations; the number of the last
  std::vector<ReadRow> reads;
  // An operation that ended otherwise than expected: number, and a sentence.
  std::vector<std::pair<uint64_t, std::string>> errors;
  // Not done: the reason, how often, the first.
  std::map<std::string, std::pair<uint64_t, uint64_t>> skipped;
  uint64_t missing_reads = 0;  // that the host made and the replay could not
  struct Time {
    uint64_t count = 0;
    int64_t recorded_ns = 0, replayed_ns = 0, other_ns = 0;  // other: the plugin compared with
  };
  std::map<std::string, Time> kinds, programs;
  int64_t recorded_wall_ns = 0, wall_ns = 0;

  bool agrees() const;
  // The first difference: the number of its operation, 0 for none, and whether it is an error.
  std::pair<uint64_t, bool> First() const;
};

// Does the session on the first plugin, and on the second where there is one, which then says what is expected.
// `before` is told the number of each operation. Errors: the plugin cannot be opened, its client cannot be made, the
// file is broken.
absl::StatusOr<ReplayReport> ReplayAndCompare(const record::SessionReader& session,
                                              const std::vector<std::string>& plugins,
                                              const PluginOptions& plugin_options, const CompareOptions& options,
                                              Terminal* terminal);

// A plugin opened for a replay; the client is made by the session.
absl::StatusOr<const host::Plugin*> OpenForReplay(const std::string& what, const PluginOptions& options,
                                                  std::vector<host::NamedValue>* create_options);

// Names for people: what made the objects of a session.
class ObjectNames {
 public:
  void Learn(const record::Operation& op);
  // "output 3 of jit_step", "object 12".
  std::string Of(uint64_t id) const;
  std::string Program(uint64_t id) const;  // "jit_step"; empty when it is none

 private:
  std::map<uint64_t, std::string> names_, programs_;
};

// "12, 15-18": operations by number, as indices. INVALID_ARGUMENT.
absl::StatusOr<record::Selection> ParseNumbers(const std::string& text, const std::vector<record::Link>& links);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_REPLAY_COMPARE_H_
