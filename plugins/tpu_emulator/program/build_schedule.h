// Builds the schedule of a program that has been split into kernels and has layouts: what each kernel does, when it
// starts, and what is in memory while it runs.
//
//   - The kernels of a loop are listed once and count trip-count times. An unknown trip count is taken as one.
//   - Of the branches of a conditional, only the slowest one is scheduled, and a note names it. Memory is reserved for
//     the branch that needs most of it: the difference to the slowest one is a buffer of its own, named after the
//     branch.
//   - A short-lived value stays in VMEM if it fits next to what is reserved for kernels (PrefetchSpace in
//     machine/clock.h). It takes neither bandwidth nor space of HBM. Its layout gets the memory space: S(1), or S(3) on
//     a machine with CMEM.
//   - An operand of a product is prefetched if that is faster. The copy uses the bandwidth that earlier kernels leave
//     idle, and the kernel waits for the rest. The copied bytes always count. The copy starts as late as the idle
//     bandwidth allows, after its operand has been computed and when there is space for it.
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
  // ResourceExhausted if the program does not fit (refusal.h). The other fields are set in any case.
  absl::Status refused;
};

// Sets the memory spaces in the layouts of `kernels`, and inserts the prefetches as copy-start and copy-done. For
// `torus` see PrepareOptions.
absl::StatusOr<TimedProgram> BuildSchedule(Module* kernels, const Machine& machine, absl::Span<const int64_t> torus);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_BUILD_SCHEDULE_H_
