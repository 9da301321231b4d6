// A driver of CUDA for tests: all functions besides those of fake_cuda_devices.cc. They succeed and do nothing.
#include "plugins/hip/runtime/cuda_driver.h"

namespace backplane::hip::cuda {

#define FAKE_FUNCTION(member, symbol, parameters)                                                            \
  extern "C" __attribute__((visibility("default"), weak)) CUresult Fake_##member parameters __asm__(symbol); \
  extern "C" CUresult Fake_##member parameters { return 0; }
BACKPLANE_CUDA_REQUIRED(FAKE_FUNCTION)
BACKPLANE_CUDA_OPTIONAL(FAKE_FUNCTION)
#undef FAKE_FUNCTION

}  // namespace backplane::hip::cuda
