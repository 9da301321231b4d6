// Replaces gpu.* functions by NVIDIA's intrinsics, and adds the attributes that the code generator needs.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_

#include <vector>

#include "plugins/hip/lowering/kernels.h"

namespace backplane::hip {

// Returns the lines before the text of the kernels from which ReadDynamicSharedBytes reads.
std::string PrintDynamicSharedLines(const std::vector<Kernel>& kernels, const std::vector<std::string>& names);

void LowerNvptxKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target);

// Makes loads of 16 bytes that are not aligned to 16 loads of words, which LLVM 19 divides as their alignment demands.
// It loads <16 x i8> by one instruction whatever the alignment, which a GPU refuses. Call it after all other passes.
void DivideUnalignedLoads(llvm::Module& module);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_KERNELS_H_
