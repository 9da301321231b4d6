// Several executions at once on one client: they share buffers; some buffers are donated, some deleted while a program
// that reads them may still run; results are read in any order.
//
// A schedule is a list of steps on numbered buffers. The first buffers are the program's arguments, each several times,
// because a donated one can be used only once. The results of the executions follow in order. Nothing waits between the
// steps unless the plugin does; copies to the host are awaited after the last step. The result must be the same as if
// each step were complete before the next one begins.
#ifndef BACKPLANE_SDK_CLI_FUZZ_SCHEDULE_H_
#define BACKPLANE_SDK_CLI_FUZZ_SCHEDULE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/devices.h"
#include "sdk/cli/fuzz/random.h"

namespace backplane::cli::fuzz {

struct FuzzProgram;

struct HostStep {
  enum class Kind { kRun, kDelete, kRead } kind = Kind::kRead;
  int64_t program = 0;           // of a run: 0 for the program itself, k for its k-th helper
  std::vector<int64_t> buffers;  // the arguments of a run; the buffer to delete or read
};

inline constexpr int64_t kArgumentCopies = 2;

// Whether a program can have a schedule: one device, no requested layouts, and results that are arrays.
bool CanBeScheduled(const FuzzProgram& program);
// Creates helpers and steps for it.
void MakeSchedule(Random& random, FuzzProgram& program);
// Returns what is read, in order, as a tuple. `program_module` replaces the program's module if it has been changed;
// `overwrites` are the arguments that are overwritten with a result although they were not donated.
struct Overwrite {
  int64_t argument, result;
};
absl::StatusOr<BoundedValue> BoundSchedule(const FuzzProgram& program, const Module& program_module,
                                           const std::vector<Overwrite>& overwrites = {},
                                           const BoundingHooks& change = {});
// Returns the arrays of a computation's result.
std::vector<Shape> ResultShapes(const Module& module);
// Whether the buffers of every step exist and have the shapes that its program needs.
bool ScheduleFits(const FuzzProgram& program);
std::vector<std::string> DescribeSchedule(const FuzzProgram& program);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_SCHEDULE_H_
