// Dereferences a field before checking whether it is null.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_CopyToMemory = [](PJRT_Buffer_CopyToMemory_Args* args) {
    static_cast<void>(*reinterpret_cast<const volatile char*>(args->dst_memory));
    return real->PJRT_Buffer_CopyToMemory(args);
  };
}
