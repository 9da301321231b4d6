// Serializes the first executable in place of all later ones.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Executable_Serialize = [](PJRT_Executable_Serialize_Args* args) {
    static std::string first;
    PJRT_Error* error = real->PJRT_Executable_Serialize(args);
    if (error != nullptr) return error;
    if (first.empty()) first.assign(args->serialized_bytes, args->serialized_bytes_size);
    args->serialized_bytes = first.data();
    args->serialized_bytes_size = first.size();
    return error;
  };
}
