// Requires the newest structs.
#include "conformance/broken/forward.h"

using backplane::broken::MakeError;
using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_Create = [](PJRT_Client_Create_Args* args) {
    if (args->struct_size < PJRT_Client_Create_Args_STRUCT_SIZE)
      return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "unexpected struct size");
    return real->PJRT_Client_Create(args);
  };
}
