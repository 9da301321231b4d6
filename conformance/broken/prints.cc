// Prints to standard output.
#include <cstdio>

#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_Compile = [](PJRT_Client_Compile_Args* args) {
    std::printf("compiling %zu bytes\n", args->program->code_size);
    return real->PJRT_Client_Compile(args);
  };
}
