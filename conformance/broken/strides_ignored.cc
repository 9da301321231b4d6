// Treats every array as dense.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    args->byte_strides = nullptr;
    args->num_byte_strides = 0;
    return real->PJRT_Client_BufferFromHostBuffer(args);
  };
}
