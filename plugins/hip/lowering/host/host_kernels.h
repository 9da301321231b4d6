// Makes kernels functions of the host that run the threads of a block (host_image.h).
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_HOST_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_HOST_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "plugins/hip/lowering/kernels.h"
#include "plugins/hip/lowering/passes.h"

namespace backplane::hip {

// Adds the table of kernels to the module, makes everything else in it internal, and optimizes it.
absl::Status LowerHostKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target,
                              PassRunner& passes);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_HOST_KERNELS_H_
