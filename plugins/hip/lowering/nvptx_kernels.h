// Replaces gpu.* functions by NVIDIA's intrinsics, and adds the attributes that the code generator needs.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_

#include <vector>

#include "plugins/hip/lowering/kernels.h"

namespace backplane::hip {

// Returns the lines before the text of the kernels from which ReadDynamicSharedBytes reads.
std::string PrintDynamicSharedLines(const std::vector<Kernel>& kernels, const std::vector<std::string>& names);

void LowerNvptxKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_
