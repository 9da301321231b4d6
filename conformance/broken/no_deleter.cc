// Provides no deleter for its bytes.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Executable_Serialize = [](PJRT_Executable_Serialize_Args* args) {
    PJRT_Error* error = real->PJRT_Executable_Serialize(args);
    args->serialized_executable_deleter = nullptr;
    return error;
  };
}
