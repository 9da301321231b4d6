// Uses the absolute value of a negative dimension.
#include <vector>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    if (args->dims == nullptr) return real->PJRT_Client_BufferFromHostBuffer(args);
    std::vector<int64_t> dims(args->dims, args->dims + args->num_dims);
    for (int64_t& d : dims) {
      if (d < 0 && d > -64) d = -d;
    }
    const int64_t* stated = args->dims;
    args->dims = dims.data();
    PJRT_Error* error = real->PJRT_Client_BufferFromHostBuffer(args);
    args->dims = stated;
    return error;
  };
}
