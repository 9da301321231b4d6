// A program without memory for its results fails with INTERNAL.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) -> PJRT_Error* {
    PJRT_Error* error = real->PJRT_LoadedExecutable_Execute(args);
    if (error == nullptr) return nullptr;
    PJRT_Error_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = error;
    real->PJRT_Error_Destroy(&destroy);
    return backplane::broken::MakeError(PJRT_Error_Code_INTERNAL, "execute failed");
  };
}
