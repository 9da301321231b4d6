// Returns the outputs in another order.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    PJRT_Error* error = real->PJRT_LoadedExecutable_Execute(args);
    if (error == nullptr && args->num_args == 2 && args->output_lists[0][1] != nullptr)
      std::swap(args->output_lists[0][0], args->output_lists[0][1]);
    return error;
  };
}
