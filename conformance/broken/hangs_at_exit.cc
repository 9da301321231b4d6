// Blocks the end of the process.
#include <unistd.h>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args* args) {
    std::atexit([] {
      for (;;) pause();
    });
    return real->PJRT_Plugin_Initialize(args);
  };
}
