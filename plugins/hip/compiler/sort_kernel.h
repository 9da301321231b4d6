// Sorts of the rows of one or several arrays, ordered by any comparator.
//
// A block sorts a chunk of a row, or several short rows, in shared memory by a bitonic network. A network compares and
// exchanges the elements at pairs of positions that are known beforehand, so any comparator, also one that contradicts
// itself, leaves a permutation. The network for a power of two sorts shorter rows too: each comparison moves the larger
// element to the larger position, so the positions past the end stay untouched. A network is not stable; for a stable
// sort, the elements of a chunk get numbers in shared memory, which decide between equal ones.
//
// If the comparator is a strict weak order (sort_order.h), the sorted chunks of longer rows are merged:
//
//   kernel 0  sorts chunks, of the operands into the results or into the scratch memory
//   kernel 1  merges pairs of runs, from the results into the scratch memory or back: a block finds by search which
//             elements of both runs belong to its part of the merged one, loads them, and each of its threads merges a
//             few. Numbers: the length of the runs, and whether they are in the scratch memory.
//
// For other comparators the network goes on:
//
//   kernel 0  also runs the rounds of longer merges whose pairs do not leave a chunk. Numbers: the length that
//             is merged first, and the mask of its first round (see EmitRounds).
//   kernel 1  one round over whole rows in global memory. Numbers: distance and mask.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SORT_KERNEL_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SORT_KERNEL_H_

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// Whether the kernels of a stable sort keep the order of equal elements by themselves. Those of other sorts do not: the
// elements of a long row whose comparator is not known to be an order must differ (LegalizeSorts).
bool KeepsOrderOfEquals(const Instruction& sort);

// Returns Unimplemented for arrays that are not dense, or a comparator that cannot be called.
absl::StatusOr<KernelPlan> PlanSort(const Instruction& sort);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SORT_KERNEL_H_
