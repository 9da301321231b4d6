// Ignores a superfluous argument.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    if (args->num_args == 3) args->num_args = 2;
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
