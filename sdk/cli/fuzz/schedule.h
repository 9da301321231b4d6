// Several programs in flight at once on one client: they share buffers, some are donated, some deleted while a program
// that reads them may still run, and results are read in any order.
//
// A schedule is a list of steps over numbered buffers. The first are the program's arguments, each several times (for a
// donated one is gone after its first use); then come the results of the runs, in order. Nothing waits between the
// steps but what the plugin makes wait, and copies to the host are awaited after the last one. It means what it means
// when each step is complete before the next one begins.
#ifndef BACKPLANE_SDK_CLI_FUZZ_SCHEDULE_H_
#define BACKPLANE_SDK_CLI_FUZZ_SCHEDULE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/random.h"

namespace backplane::cli::fuzz {

struct FuzzProgram;

struct HostStep {
  enum class Kind { kRun, kDelete, kRead } kind = Kind::kRead;
  int64_t program = 0;           // of a run: 0 the program itself, k its k-th helper
  std::vector<int64_t> buffers;  // the arguments of a run; one buffer to delete or read
};

inline constexpr int64_t kArgumentCopies = 2;

// Whether a program can have a schedule: on one device, no layouts asked for, results that are arrays.
bool CanBeScheduled(const FuzzProgram& program);
// Makes helpers and steps for it.
void MakeSchedule(Random& random, FuzzProgram& program);
// What is read, in order, as a tuple. `program_module` stands for the program's own, where it has been changed;
// `overwrites` says which arguments of the program are overwritten with a result though nobody gave them away.
struct Overwrite {
  int64_t argument, result;
};
absl::StatusOr<Judged> JudgeSchedule(const FuzzProgram& program, const Module& program_module,
                                     const std::vector<Overwrite>& overwrites = {});
// The arrays of a computation's result.
std::vector<Shape> ResultShapes(const Module& module);
// Whether every step's buffers are there and of the shapes of what it runs.
bool ScheduleFits(const FuzzProgram& program);
std::vector<std::string> ScheduleText(const FuzzProgram& program);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_SCHEDULE_H_
