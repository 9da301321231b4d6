// What a program needs of the machine's memory at its fullest moment, before it is run.
//
// Arguments, results and large constants take their padded sizes all the time; a result that takes a donated argument's
// place counts once. Between kernels every other value lives in its layout from the kernel that makes it to the last
// one that reads it, unless it stays in VMEM; a kernel that may work in place takes an operand's room that nobody else
// needs.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MEMORY_PLAN_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "plugins/tpu_emulator/machine/capacity.h"
#include "plugins/tpu_emulator/program/program_walk.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

struct MemoryPlan {
  int64_t peak_bytes = 0;
  int64_t argument_bytes = 0, result_bytes = 0;  // padded; aliased results count as results too
  int64_t alias_bytes = 0;                       // of results that take an argument's place
  int64_t temporary_bytes = 0;                   // of the rest at the peak, constants among it
  std::vector<Allocation> allocations;           // what is there at the peak; arguments and results first
  int64_t fullest_kernel = -1;                   // the first one while which the peak is reached; -1: no kernels
};

// An entry of the list above, or of a refusal's.
Allocation AllocationOf(const ScheduledBuffer& buffer, absl::string_view kind);

// Of a program whose buffers have their spaces. Fills the schedule's hbm_in_use.
MemoryPlan PlanMemory(const WalkedProgram& program, Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MEMORY_PLAN_H_
