// An event reports that it is not ready for two more seconds.
#include <chrono>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* args) {
    PJRT_Error* error = real->PJRT_Event_IsReady(args);
    static const auto begin = std::chrono::steady_clock::now();
    if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(2)) args->is_ready = false;
    return error;
  };
}
