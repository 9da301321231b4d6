// Repeats a recorded session and compares it with what the host read when it was recorded, or with a second plugin.
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
  double relative = 0;  // of the largest finite magnitude of the expected array; added to the absolute tolerance
  uint64_t until = 0;   // the last operation to repeat; 0: all
  const record::Selection* keep = nullptr;  // repeats only these; null: all
  bool stop_at_first = false;               // stops at the first difference
  bool session_options = true;              // gives clients the create options of the session
  bool timing = false;                      // waits for the results of each execution
};

// One read of the host.
struct ReadRow {
  uint64_t number = 0;  // the operation by which the host learned that the read was complete
  std::string what;     // "output 3 of jit_step"
  std::string shape;
  bool agrees = true;
  bool identical = false;  // bit by bit
  bool measured = true;    // false: only a digest is available for comparison
  Difference difference;
};

struct ReplayReport {
  uint64_t done = 0, last = 0;  // number of operations; number of the last one
  std::vector<ReadRow> reads;
  // Operations with another status than expected: their number and a sentence.
  std::vector<std::pair<uint64_t, std::string>> errors;
  // Operations that were skipped: the reason, how often, the first one.
  std::map<std::string, std::pair<uint64_t, uint64_t>> skipped;
  uint64_t missing_reads = 0;  // reads of the host that the replay could not repeat
  struct Time {
    uint64_t count = 0;
    int64_t recorded_ns = 0, replayed_ns = 0, other_ns = 0;  // other: the plugin for comparison
  };
  std::map<std::string, Time> kinds, programs;
  int64_t recorded_wall_ns = 0, wall_ns = 0;

  bool agrees() const;
  // The first difference: the number of its operation, 0 for none, and whether it is an error.
  std::pair<uint64_t, bool> First() const;
};

// Repeats the session on the first plugin, and on the second, if there is one, which then provides the expected
// results. `before` is called with the number of each operation. Returns an error if the plugin cannot be opened, its
// client cannot be created, or the file is damaged.
absl::StatusOr<ReplayReport> ReplayAndCompare(const record::SessionReader& session,
                                              const std::vector<std::string>& plugins,
                                              const PluginOptions& plugin_options, const CompareOptions& options,
                                              Terminal* terminal);

// A plugin opened for a replay. The session creates the client.
absl::StatusOr<const host::Plugin*> OpenForReplay(const std::string& what, const PluginOptions& options,
                                                  std::vector<host::NamedValue>* create_options);

// Names of the objects of a session, derived from the operations that created them.
class ObjectNames {
 public:
  void AddNames(const record::Operation& op);
  // Returns "output 3 of jit_step", "object 12" and so on.
  std::string Of(uint64_t id) const;
  std::string Program(uint64_t id) const;  // "jit_step"; empty if the object is not a program

 private:
  std::map<uint64_t, std::string> names_, programs_;
};

// Parses "12, 15-18", numbers of operations, to indices. Returns INVALID_ARGUMENT.
absl::StatusOr<record::Selection> ParseNumbers(const std::string& text, const std::vector<record::Link>& links);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_REPLAY_COMPARE_H_
