// Copies to the host in the layout of the buffer, whatever the host requests.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_ToHostBuffer = [](PJRT_Buffer_ToHostBuffer_Args* args) {
    args->host_layout = nullptr;
    return real->PJRT_Buffer_ToHostBuffer(args);
  };
}
