// Sorts: a bitonic network over the rows of one or several arrays, ordered by any comparator.
//
// A network compares and exchanges the elements at pairs of positions that are known beforehand, so any comparator,
// also one that contradicts itself, leaves a permutation. The network for a power of two sorts shorter rows too: each
// comparison moves the larger element to the larger position, so the positions past the end stay untouched.
//
//   kernel 0  a block loads a chunk of a row, or several short rows, into shared memory and runs the rounds of the
//             network whose pairs do not leave the chunk. Numbers: the length that is merged first, and the mask of its
//             first round (see EmitRounds).
//   kernel 1  one round over whole rows in global memory. Numbers: distance and mask.
//
// A row that fits into a chunk takes one launch. The network is not stable: LegalizeSorts makes equal elements differ.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SORT_KERNEL_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SORT_KERNEL_H_

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// Returns Unimplemented for arrays that are not dense, or a comparator that cannot be called.
absl::StatusOr<KernelPlan> PlanSort(const Instruction& sort);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SORT_KERNEL_H_
