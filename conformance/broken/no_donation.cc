// Donates no argument.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_LoadedExecutable_Execute = [](PJRT_LoadedExecutable_Execute_Args* args) {
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    PJRT_ExecuteOptions options = *args->options;
    options.non_donatable_input_indices = all;
    options.num_non_donatable_input_indices = std::min<size_t>(args->num_args, 8);
    PJRT_LoadedExecutable_Execute_Args changed = *args;
    changed.options = &options;
    return real->PJRT_LoadedExecutable_Execute(&changed);
  };
}
