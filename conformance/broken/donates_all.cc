// Donates arguments that must not be donated.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    PJRT_ExecuteOptions options = *args->options;
    options.num_non_donatable_input_indices = 0;
    PJRT_LoadedExecutable_Execute_Args changed = *args;
    changed.options = &options;
    return real->PJRT_LoadedExecutable_Execute(&changed);
  };
}
