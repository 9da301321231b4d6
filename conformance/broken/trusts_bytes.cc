// Crashes on a portable artifact that cannot be parsed.
#include <cstring>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_Compile = [](PJRT_Client_Compile_Args* args) {
    PJRT_Error* error = real->PJRT_Client_Compile(args);
    const PJRT_Program* program = args->program;
    if (error != nullptr && program != nullptr && program->code_size > 4 &&
        std::memcmp(program->code, "ML\xefR", 4) == 0)
      std::abort();
    return error;
  };
}
