// An error changes its code on its way through an event.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Event_Set = [](PJRT_Event_Set_Args* args) {
    if (args->error_code != PJRT_Error_Code_OK) args->error_code = PJRT_Error_Code_INTERNAL;
    return real->PJRT_Event_Set(args);
  };
}
