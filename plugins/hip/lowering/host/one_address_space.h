// Makes GPU code that uses no address spaces.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_ONE_ADDRESS_SPACE_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_ONE_ADDRESS_SPACE_H_

#include <vector>

#include "plugins/hip/lowering/kernels.h"

namespace backplane::hip {

// A kernel's body as a function of the host. Its parameters are the kernel's, then those of BodyParameter.
struct HostBody {
  llvm::Function* function = nullptr;  // internal
  llvm::Function* kernel = nullptr;    // the kernel from which it was made
};
enum BodyParameter {
  kThreadParameter,
  kBlockParameter,
  kBlocksParameter,
  kSharedParameter,
  kFrameParameter,
  kBodyParameters
};

// Replaces every function of the module by one whose pointers are in address space 0. Shared variables become places
// in the memory that kSharedParameter points to. The kernels stay, without users; the bodies are in their order.
std::vector<HostBody> UseOneAddressSpace(llvm::Module& module, const std::vector<Kernel>& kernels);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_ONE_ADDRESS_SPACE_H_
