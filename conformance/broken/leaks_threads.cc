// Starts a thread for each execution, which sleeps until the process ends.
#include <unistd.h>

#include <thread>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    std::thread([] {
      for (;;) pause();
    }).detach();
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
