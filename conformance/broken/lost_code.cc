// Every error is INTERNAL.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = PJRT_Error_Code_INTERNAL;
    return nullptr;
  };
}
