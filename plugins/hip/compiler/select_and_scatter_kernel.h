// select-and-scatter, the gradient of a max-pool: each window of the operand selects one element, to which the window's
// value of the source is scattered.
//
// A thread computes one element of the result: it goes through the windows that contain the element, in their order,
// finds what each selects, and combines the values of those that select its element. It uses no atomic operations, so
// the result is that of the definition. The work of an element is the number of windows that contain it times their
// size.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SELECT_AND_SCATTER_KERNEL_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SELECT_AND_SCATTER_KERNEL_H_

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// Returns Unimplemented for arrays that are not dense, or computations that cannot be called.
absl::StatusOr<KernelPlan> PlanSelectAndScatter(const Instruction& operation);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SELECT_AND_SCATTER_KERNEL_H_
