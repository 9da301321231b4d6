// Drops the error of an event.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Event_Await = [](PJRT_Event_Await_Args* args) -> PJRT_Error* {
    PJRT_Error_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = real->PJRT_Event_Await(args);
    real->PJRT_Error_Destroy(&destroy);
    return nullptr;
  };
}
