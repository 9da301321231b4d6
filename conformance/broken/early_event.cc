// Every buffer reports that it is ready immediately.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_ReadyEvent = [](PJRT_Buffer_ReadyEvent_Args* args) {
    PJRT_Event_Create_Args create{};
    create.struct_size = PJRT_Event_Create_Args_STRUCT_SIZE;
    if (PJRT_Error* error = real->PJRT_Event_Create(&create); error != nullptr) return error;
    PJRT_Event_Set_Args set{};
    set.struct_size = PJRT_Event_Set_Args_STRUCT_SIZE;
    set.event = args->event = create.event;
    return real->PJRT_Event_Set(&set);
  };
}
