// A schedule's totals as a host's cost analysis shows them.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_COST_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_COST_H_

#include "plugins/tpu_emulator/program/schedule.h"
#include "sdk/backend/backend.h"

namespace backplane::tpu {

// Of one run, loops counted by their turns: "flops", "transcendentals", "bytes accessed" (of HBM, padded),
// "optimal_seconds" (the clock's answer, without dispatch), "cycles" (the same in cycles), "kernels" (executions), and
// the time that each unit is busy: "mxu seconds", "vpu seconds", "hbm seconds", "ici seconds".
NamedValues ScheduleCost(const Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_COST_H_
