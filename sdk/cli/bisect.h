// Where two plugins begin to differ in a program.
#ifndef BACKPLANE_SDK_CLI_BISECT_H_
#define BACKPLANE_SDK_CLI_BISECT_H_

#include <string>
#include <vector>

#include "core/ir/module.h"
#include "sdk/cli/session.h"
#include "sdk/cli/ulp.h"

namespace backplane::cli {

struct Culprit {
  std::string instruction;  // its line of HLO text; empty: no single instruction differs
  std::string source;       // where it comes from, when the program says
  Difference difference;    // between the plugins, inside the program
  // The instruction alone, given the same operands on both.
  bool alone_differs = false;
  absl::Status alone_status;  // why it could not be tried alone
  Difference alone;
  int64_t compared = 0;  // instructions looked at
};

// Runs programs that return every array the entry computes, as many at a time as fit `max_bytes`, and finds the first
// instruction, in the order of the program, that differs by more than `tolerance` between the plugins.
absl::StatusOr<Culprit> FindFirstDifference(const Module& module, const Session& a, const Session& b,
                                            const std::vector<host::HostArray>& inputs, const Tolerance& tolerance,
                                            Terminal& terminal, int64_t max_bytes = int64_t{1} << 30);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_BISECT_H_
