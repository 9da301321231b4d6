// Kernels compiled for the host. The emulated runtime runs them faster than a GPU's machine code.
//
// A host image is an ELF shared library (ET_DYN) for the host's machine that needs no other library. It exports one
// array, kHostKernelTable, that ends with an entry whose name is null.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_IMAGE_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_IMAGE_H_

#include <cstdint>

namespace backplane::hip {

// Runs all threads of one block. `kernarg` has the arguments in their order, each at its natural alignment. `shared`
// has HostKernel::shared_bytes of memory and `frames` HostKernel::frame_bytes, both for this block, 64-byte aligned and
// uninitialized. Blocks may run on several threads at once, each with memory of its own. Returns 0, or 1 if the threads
// disagree about a barrier or shuffle: one waits at it while another waits at a different one or has ended. The block
// has then stopped in the middle.
using HostKernelFunction = int32_t (*)(const void* kernarg, uint32_t block, uint32_t blocks, void* shared,
                                       void* frames);

struct HostKernel {
  const char* name;
  HostKernelFunction run;
  uint32_t threads;  // of a block
  uint32_t kernarg_bytes;
  uint32_t shared_bytes;
  uint32_t frame_bytes;  // for the states of threads that wait at barriers; 0 for kernels without barriers and shuffles
};

inline constexpr char kHostKernelTable[] = "backplane_host_kernels";

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_IMAGE_H_
