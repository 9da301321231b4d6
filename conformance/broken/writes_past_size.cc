// Writes fields beyond the caller's struct_size.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Device_MemoryStats = [](PJRT_Device_MemoryStats_Args* args) {
    args->peak_allocated_bytes = 0;
    args->peak_allocated_bytes_is_set = false;
    return real->PJRT_Device_MemoryStats(args);
  };
}
