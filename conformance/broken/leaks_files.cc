// Opens a file for each execution and does not close it.
#include <fcntl.h>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    open("/dev/null", O_RDONLY | O_CLOEXEC);
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
