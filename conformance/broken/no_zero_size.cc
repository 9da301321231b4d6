// Rejects arrays without elements.
#include "conformance/broken/forward.h"

using backplane::broken::MakeError;
using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    for (size_t i = 0; i < args->num_dims; ++i) {
      if (args->dims[i] == 0) return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "no elements");
    }
    return real->PJRT_Client_BufferFromHostBuffer(args);
  };
}
