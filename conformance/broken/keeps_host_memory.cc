// Keeps using host memory after it was returned to the host.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    args->host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    PJRT_Error* error = real->PJRT_Client_BufferFromHostBuffer(args);
    if (error != nullptr || args->done_with_host_buffer == nullptr) return error;
    PJRT_Event_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
    destroy.event = args->done_with_host_buffer;
    args->done_with_host_buffer = nullptr;
    return real->PJRT_Event_Destroy(&destroy);
  };
}
