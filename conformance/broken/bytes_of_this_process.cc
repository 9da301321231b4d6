// Serializes data that only this process can read.
#include "conformance/broken/forward.h"

using backplane::broken::real;

static std::string kept;

BROKEN_PLUGIN {
  table->PJRT_Executable_Serialize = [](PJRT_Executable_Serialize_Args* args) {
    PJRT_Error* error = real->PJRT_Executable_Serialize(args);
    if (error != nullptr) return error;
    kept.assign(args->serialized_bytes, args->serialized_bytes_size);
    args->serialized_bytes = "executable 1 of this process";
    args->serialized_bytes_size = 28;
    return error;
  };
  table->PJRT_Executable_DeserializeAndLoad = [](PJRT_Executable_DeserializeAndLoad_Args* args) {
    args->serialized_executable = kept.data();
    args->serialized_executable_size = kept.size();
    return real->PJRT_Executable_DeserializeAndLoad(args);
  };
}
