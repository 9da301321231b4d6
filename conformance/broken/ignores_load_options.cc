// Loads an executable with the options it was compiled with, ignoring those of the host.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Executable_DeserializeAndLoad = [](PJRT_Executable_DeserializeAndLoad_Args* args) {
    PJRT_Executable_DeserializeAndLoad_Args plain = *args;
    plain.overridden_serialized_compile_options = nullptr;
    plain.overridden_serialized_compile_options_size = 0;
    PJRT_Error* error = real->PJRT_Executable_DeserializeAndLoad(&plain);
    args->loaded_executable = plain.loaded_executable;
    return error;
  };
  table->PJRT_Client_Load = [](PJRT_Client_Load_Args* args) {
    PJRT_Client_Load_Args plain = *args;
    plain.compile_options = nullptr;
    plain.compile_options_size = 0;
    PJRT_Error* error = real->PJRT_Client_Load(&plain);
    args->loaded_executable = plain.loaded_executable;
    return error;
  };
}
