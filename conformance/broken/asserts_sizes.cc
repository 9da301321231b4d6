// Asserts that structs are not small.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_LookupDevice = [](PJRT_Client_LookupDevice_Args* args) {
    if (args->struct_size < PJRT_Client_LookupDevice_Args_STRUCT_SIZE) std::abort();
    return real->PJRT_Client_LookupDevice(args);
  };
}
