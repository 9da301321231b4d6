// Leaks a kibibyte in the device's memory statistics for each execution.
#include <atomic>

#include "conformance/broken/forward.h"

using backplane::broken::real;

static std::atomic<int64_t> lost;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    lost += 1024;
    return real->PJRT_LoadedExecutable_Execute(args);
  };
  table->PJRT_Device_MemoryStats = [](PJRT_Device_MemoryStats_Args* args) {
    PJRT_Error* error = real->PJRT_Device_MemoryStats(args);
    if (error == nullptr) args->bytes_in_use += lost;
    return error;
  };
}
