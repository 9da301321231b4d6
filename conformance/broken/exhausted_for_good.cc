// Once memory has been exhausted by a buffer, no program runs any more.
#include <atomic>

#include "conformance/broken/forward.h"

using backplane::broken::real;

static std::atomic<bool> exhausted{false};

BROKEN_PLUGIN {
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    PJRT_Error* error = real->PJRT_Client_BufferFromHostBuffer(args);
    if (error != nullptr) exhausted = true;
    return error;
  };
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) -> PJRT_Error* {
    if (exhausted) return backplane::broken::MakeError(PJRT_Error_Code_INTERNAL, "the allocator is in a bad state");
    return real->PJRT_LoadedExecutable_Execute(args);
  };
}
