// Reports programs that do not fit: the reason, the buffers that take the memory, and possible remedies.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REFUSAL_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REFUSAL_H_

#include "absl/status/status.h"
#include "plugins/tpu_emulator/machine/machine.h"
#include "plugins/tpu_emulator/program/memory_plan.h"
#include "plugins/tpu_emulator/program/program_walk.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

// Checks a complete schedule and its plan. Returns ResourceExhausted, in the words of machine/capacity.h, and sets
// schedule.refusal, for the first kernel whose windows exceed the scoped VMEM limit, or else if HBM is exceeded.
absl::Status CheckFit(const Machine& machine, const WalkedProgram& program, const MemoryPlan& plan, Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REFUSAL_H_
