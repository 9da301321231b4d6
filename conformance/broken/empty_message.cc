// Errors have empty messages.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = "";
    args->message_size = 0;
  };
}
