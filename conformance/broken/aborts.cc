// Ends the process.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Executable_GetCompiledMemoryStats = [](PJRT_Executable_GetCompiledMemoryStats_Args*) -> PJRT_Error* {
    std::abort();
  };
}
