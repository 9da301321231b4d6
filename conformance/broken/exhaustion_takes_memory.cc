// A failed allocation of a buffer leaks a smaller one.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    PJRT_Error* error = real->PJRT_Client_BufferFromHostBuffer(args);
    if (error == nullptr) return error;
    PJRT_Client_BufferFromHostBuffer_Args lost = *args;
    const int64_t few = 1024;
    lost.dims = &few;
    lost.num_dims = 1;
    if (PJRT_Error* none = real->PJRT_Client_BufferFromHostBuffer(&lost); none != nullptr) {
      PJRT_Error_Destroy_Args destroy{};
      destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
      destroy.error = none;
      real->PJRT_Error_Destroy(&destroy);
    }
    return error;
  };
}
