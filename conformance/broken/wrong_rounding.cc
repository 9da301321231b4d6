// Rounds ties away from zero instead of to even.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Client_Compile = [](PJRT_Client_Compile_Args* args) {
    std::string code(args->program->code, args->program->code_size);
    const std::string right = "stablehlo.round_nearest_even", wrong = "stablehlo.round_nearest_afz";
    for (size_t at; (at = code.find(right)) != std::string::npos;) code.replace(at, right.size(), wrong);
    return backplane::broken::CompileInstead(args, std::move(code));
  };
}
