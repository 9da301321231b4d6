// Looks at what a field points to before it looks whether it does.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_CopyToMemory = [](PJRT_Buffer_CopyToMemory_Args* args) {
    static_cast<void>(*reinterpret_cast<const volatile char*>(args->dst_memory));
    return real->PJRT_Buffer_CopyToMemory(args);
  };
}
