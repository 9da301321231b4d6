// Launches device by device: if the arguments of a later device are rejected, those of the first one have been donated.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    PJRT_Error* error = real->PJRT_LoadedExecutable_Execute(args);
    if (error != nullptr && args->num_devices > 1 && args->num_args > 0) {
      PJRT_Buffer_Delete_Args gone{PJRT_Buffer_Delete_Args_STRUCT_SIZE, nullptr, args->argument_lists[0][0]};
      real->PJRT_Buffer_Delete(&gone);
    }
    return error;
  };
}
