// Replaces gpu.* functions by AMD's intrinsics, and adds the attributes that AMD's code generator needs.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_AMD_KERNELS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_AMD_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugins/hip/lowering/kernels.h"

namespace backplane::hip {

absl::Status LowerAmdKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target);

// Reads the resources of the kernels from a linked code object, in the order of `kernels`.
absl::StatusOr<std::vector<KernelResources>> ReadAmdResources(const std::string& code_object,
                                                              const std::vector<std::string>& kernels,
                                                              const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_AMD_KERNELS_H_
