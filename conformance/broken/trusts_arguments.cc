// Dereferences every argument of an execution, even if it is missing.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    for (size_t a = 0; a < args->num_args && a < 2 && args->num_devices == 1; ++a)
      static_cast<void>(*reinterpret_cast<const volatile char*>(args->argument_lists[0][a]));
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
