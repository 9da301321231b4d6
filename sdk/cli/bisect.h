// Finds the first instruction of a program on which two plugins differ.
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
  std::string source;       // its source location, if the program states it
  Difference difference;    // between the plugins, inside the program
  // The difference of the instruction alone, with the same operands on both plugins.
  bool alone_differs = false;
  absl::Status alone_status;  // why it could not be run alone
  Difference alone;
  int64_t compared = 0;  // number of instructions compared
};

// Runs programs that return every array of the entry computation, as many at a time as fit in `max_bytes`. Finds the
// first instruction, in program order, that differs by more than `tolerance` between the plugins.
absl::StatusOr<Culprit> FindFirstDifference(const Module& module, const Session& a, const Session& b,
                                            const std::vector<host::HostArray>& inputs, const Tolerance& tolerance,
                                            Terminal& terminal, int64_t max_bytes = int64_t{1} << 30);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_BISECT_H_
