// Walks a program that is cut into kernels and laid out, in the order in which the machine runs it, and says what each
// kernel does, when, and what lies in memory meanwhile.
//
//   - Loops are walked once; their kernels count as often as the loop turns, where the program says how often.
//   - Of a conditional's branches the longest one is counted; the notes name it. Memory has room for the one that needs
//     most: what this is beyond the longest one's is a buffer of its own, named after the branch.
//   - Values that live shortly and fit the VMEM that kernels leave stay there (machine/clock.h, PrefetchSpace). They
//     take neither bandwidth nor room of HBM. Their layouts get the memory space: S(1), on a machine with CMEM S(3).
//   - An operand of a product is copied ahead when that is quicker: while earlier kernels run, the bandwidth that they
//     leave is used first, and what remains is waited for. In any case its bytes count. The copy begins as late as
//     that bandwidth allows, not before its operand is made or there is room for it.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_BUILD_SCHEDULE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_BUILD_SCHEDULE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/machine/machine.h"
#include "plugins/tpu_emulator/program/memory_plan.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

struct TimedProgram {
  Schedule schedule;
  MemoryPlan plan;
  absl::Status refused;  // ResourceExhausted: it does not fit (refusal.h), all else is there nevertheless
};

// Sets the memory spaces of `kernels`' layouts and puts the copies that run ahead into it, as copy-start and copy-done.
// `torus`: PrepareOptions::torus.
absl::StatusOr<TimedProgram> BuildSchedule(Module* kernels, const Machine& machine, absl::Span<const int64_t> torus);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_BUILD_SCHEDULE_H_
