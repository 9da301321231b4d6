// Fusions that read arrays across: neighbours along the last dimension of the results are not neighbours in the array,
// but those along another dimension are (transposes, also with elementwise operations around them). A block loads a
// tile of each such array along the array's rows into shared memory, and computes a tile of the results along theirs.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_TRANSPOSE_KERNEL_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_TRANSPOSE_KERNEL_H_

#include <optional>

#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// Returns nullopt if the body of the fusion reads no array across.
std::optional<KernelPlan> PlanTranspose(const Computation& body);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_TRANSPOSE_KERNEL_H_
