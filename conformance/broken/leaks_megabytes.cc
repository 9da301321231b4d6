// Leaks a mebibyte of malloc for each execution.
#include "conformance/broken/forward.h"

using backplane::broken::real;

static char* volatile lost;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    lost = new char[1 << 20];
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
