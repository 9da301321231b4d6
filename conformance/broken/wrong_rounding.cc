// Rounds ties away from zero instead of to even.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Client_Compile = [](PJRT_Client_Compile_Args* args) {
    std::string code(args->program->code, args->program->code_size);
    const std::string right = "stablehlo.round_nearest_even", wrong = "stablehlo.round_nearest_afz";
    for (size_t at; (at = code.find(right)) != std::string::npos;) code.replace(at, right.size(), wrong);
    PJRT_Program program = *args->program;
    program.code = code.data();
    program.code_size = code.size();
    PJRT_Client_Compile_Args changed = *args;
    changed.program = &program;
    PJRT_Error* error = real->PJRT_Client_Compile(&changed);
    args->executable = changed.executable;
    return error;
  };
}
