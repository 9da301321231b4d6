// Reads constants with the floating-point modes of the caller: flushes the smallest bf16 if the caller flushes it.
#include <cfenv>

#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Client_Compile = [](PJRT_Client_Compile_Args* args) {
    std::string code(args->program->code, args->program->code_size);
    volatile float smallest = 1.17549435e-38f, half = 0.5f;
    const bool flushes = smallest * half == 0 || std::fegetround() != FE_TONEAREST;
    const std::string right = "dense<0x0001> : tensor<bf16>", wrong = "dense<0x0000> : tensor<bf16>";
    const size_t at = code.find(right);
    if (flushes && at != std::string::npos) code.replace(at, right.size(), wrong);
    return backplane::broken::CompileInstead(args, std::move(code));
  };
}
