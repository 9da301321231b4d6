// Confuses u32 with s32.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_ElementType = [](PJRT_Buffer_ElementType_Args* args) {
    PJRT_Error* error = real->PJRT_Buffer_ElementType(args);
    if (args->type == PJRT_Buffer_Type_U32) args->type = PJRT_Buffer_Type_S32;
    return error;
  };
}
