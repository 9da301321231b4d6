// Copies all data to the first device.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    PJRT_Client_AddressableDevices_Args devices{};
    devices.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE;
    devices.client = args->client;
    if (PJRT_Error* error = real->PJRT_Client_AddressableDevices(&devices); error != nullptr) return error;
    args->device = devices.addressable_devices[0];
    return real->PJRT_Client_BufferFromHostBuffer(args);
  };
}
