// All errors share one buffer for their messages.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    static char place[512];
    real->PJRT_Error_Message(args);
    const size_t size = std::min(args->message_size, sizeof(place));
    std::memcpy(place, args->message, size);
    args->message = place;
    args->message_size = size;
  };
}
