// All devices have the same id.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = 0;
    return nullptr;
  };
}
