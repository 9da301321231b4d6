// Changes how the process treats a signal.
#include <csignal>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args* args) {
    std::signal(SIGPIPE, SIG_IGN);
    return real->PJRT_Plugin_Initialize(args);
  };
}
