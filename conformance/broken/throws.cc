// Throws exceptions across the C boundary.
#include <stdexcept>

#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Executable_OptimizedProgram = [](PJRT_Executable_OptimizedProgram_Args*) -> PJRT_Error* {
    throw std::runtime_error("no program");
  };
}
