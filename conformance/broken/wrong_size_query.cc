// Reports too large a size.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_ToHostBuffer = [](PJRT_Buffer_ToHostBuffer_Args* args) {
    const bool asks = args->dst == nullptr;
    PJRT_Error* error = real->PJRT_Buffer_ToHostBuffer(args);
    if (asks) args->dst_size += 8;
    return error;
  };
}
