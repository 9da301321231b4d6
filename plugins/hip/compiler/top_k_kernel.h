// Top-k of short rows: a block keeps a row in shared memory, sorts runs of about k elements of it by a bitonic network,
// and then merges pairs of runs, of which it keeps the better halves. Long rows are divided (LegalizeSorts).
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_TOP_K_KERNEL_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_TOP_K_KERNEL_H_

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"

namespace backplane::hip {

// The longest row of the kernel, and whether it compares elements of the type: their order is that of integers of at
// most 32 bits, as the total order of floats is.
constexpr int64_t kMaxTopKRow = 2048;
bool IsTopKType(PrimitiveType type);

absl::StatusOr<KernelPlan> PlanTopK(const Instruction& top_k);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_TOP_K_KERNEL_H_
