// Copies more than the destination holds.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_ToHostBuffer = [](PJRT_Buffer_ToHostBuffer_Args* args) {
    if (args->dst != nullptr) args->dst_size = 1 << 30;
    return real->PJRT_Buffer_ToHostBuffer(args);
  };
}
