// Programs that do not fit: why, what takes the room, and what may help.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REFUSAL_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REFUSAL_H_

#include "absl/status/status.h"
#include "plugins/tpu_emulator/machine/machine.h"
#include "plugins/tpu_emulator/program/memory_plan.h"
#include "plugins/tpu_emulator/program/program_walk.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

// Of a whole schedule and its plan. ResourceExhausted, in the words of machine/capacity.h, with schedule.refusal
// filled: the first kernel whose windows do not fit the scoped VMEM limit, else HBM.
absl::Status CheckFit(const Machine& machine, const WalkedProgram& program, const MemoryPlan& plan, Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REFUSAL_H_
