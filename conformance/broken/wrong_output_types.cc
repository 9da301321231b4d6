// Reports the types of outputs in another order.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Executable_OutputElementTypes = [](PJRT_Executable_OutputElementTypes_Args* args) {
    PJRT_Error* error = real->PJRT_Executable_OutputElementTypes(args);
    if (error == nullptr && args->num_output_types == 2) {
      static PJRT_Buffer_Type types[2];
      types[0] = args->output_types[1];
      types[1] = args->output_types[0];
      args->output_types = types;
    }
    return error;
  };
}
