// Follows a null pointer.
#include "conformance/broken/forward.h"

static int64_t* volatile nowhere = nullptr;

BROKEN_PLUGIN {
  table->PJRT_Executable_SizeOfGeneratedCodeInBytes =
      [](PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args) -> PJRT_Error* {
    args->size_in_bytes = *nowhere;
    return nullptr;
  };
}
