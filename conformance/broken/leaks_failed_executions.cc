// Leaks memory only if an execution is rejected.
#include "conformance/broken/forward.h"

using backplane::broken::real;

static char* volatile lost;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    PJRT_Error* error = real->PJRT_LoadedExecutable_Execute(args);
    if (error != nullptr) lost = new char[200];
    return error;
  };
}
