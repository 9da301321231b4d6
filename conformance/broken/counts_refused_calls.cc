// Counts a rejected call for one device as a launch of that device, so that its launches are paired wrongly from then
// on.
#include "conformance/broken/forward.h"

using backplane::broken::real;

static bool owed = false;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    if (args->execute_device != nullptr && owed) {
      owed = false;  // adds the missing launch, on a copy of the arguments
      PJRT_Buffer_CopyToDevice_Args copy{PJRT_Buffer_CopyToDevice_Args_STRUCT_SIZE, nullptr, args->argument_lists[0][0],
                                         args->execute_device, nullptr};
      PJRT_Buffer* output = nullptr;
      if (real->PJRT_Buffer_CopyToDevice(&copy) == nullptr) {
        PJRT_Buffer* const row[] = {copy.dst_buffer};
        PJRT_Buffer* const* rows[] = {row};
        PJRT_Buffer** outputs[] = {&output};
        PJRT_LoadedExecutable_Execute_Args ghost = *args;
        ghost.argument_lists = rows;
        ghost.output_lists = outputs;
        real->PJRT_LoadedExecutable_Execute(&ghost);
      }
    }
    PJRT_Error* error = real->PJRT_LoadedExecutable_Execute(args);
    if (error != nullptr && args->execute_device != nullptr) owed = true;
    return error;
  };
}
