// Compares struct sizes for equality.
#include "conformance/broken/forward.h"

using backplane::broken::MakeError;
using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* args) {
    if (args->struct_size != PJRT_Buffer_Dimensions_Args_STRUCT_SIZE)
      return MakeError(PJRT_Error_Code_INVALID_ARGUMENT, "unexpected struct size");
    return real->PJRT_Buffer_Dimensions(args);
  };
}
