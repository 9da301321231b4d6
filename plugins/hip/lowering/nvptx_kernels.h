// gpu.* functions as NVIDIA's intrinsics, and what its code generator wants to know of kernels.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_

#include <vector>

#include "plugins/hip/lowering/kernels.h"

namespace backplane::hip {

// What DynamicSharedBytes reads, to stand before the text of the kernels.
std::string DynamicSharedLines(const std::vector<Kernel>& kernels, const std::vector<std::string>& names);

void LowerNvptxKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_
