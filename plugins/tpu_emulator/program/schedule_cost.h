// Converts a schedule's totals to the properties of a host's cost analysis.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_COST_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_COST_H_

#include "plugins/tpu_emulator/program/schedule.h"
#include "sdk/backend/backend.h"

namespace backplane::tpu {

// Totals of one run; loops count trip-count times. "flops", "transcendentals", "bytes accessed" (of HBM, padded),
// "optimal_seconds" (the clock's estimate without dispatch), "cycles" (the same in cycles), "kernels" (executions), and
// the busy time of each unit: "mxu seconds", "vpu seconds", "hbm seconds", "ici seconds".
NamedValues ScheduleCost(const Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SCHEDULE_COST_H_
