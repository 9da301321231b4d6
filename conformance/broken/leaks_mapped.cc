// Maps a mebibyte for each execution, without malloc, and never unmaps it. Touches no page of it.
#include <sys/mman.h>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
