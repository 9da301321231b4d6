// Computes the peak of a program's memory before it runs.
//
// Arguments, results and large constants take their padded sizes during the whole run. A result in the memory of a
// donated argument counts once. Any other value between kernels lives from the kernel that makes it to the last one
// that reads it, unless it stays in VMEM. A kernel that may work in place reuses the memory of an operand that no later
// kernel reads.
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
  int64_t argument_bytes = 0, result_bytes = 0;  // padded; results that alias an argument are counted in both
  int64_t alias_bytes = 0;                       // of results that alias an argument
  int64_t temporary_bytes = 0;                   // the rest of the peak, including constants
  std::vector<Allocation> allocations;           // the allocations at the peak; arguments and results first
  int64_t fullest_kernel = -1;  // the first kernel at which the peak is reached; -1: there are no kernels
};

// Makes an entry of MemoryPlan::allocations or of an error message.
Allocation MakeAllocation(const ScheduledBuffer& buffer, absl::string_view kind);

// Plans the memory of a program whose buffers have spaces. Sets schedule.hbm_in_use.
MemoryPlan PlanMemory(const WalkedProgram& program, Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MEMORY_PLAN_H_
