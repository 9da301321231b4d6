// Never returns.
#include <unistd.h>

#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Executable_Name = [](PJRT_Executable_Name_Args*) -> PJRT_Error* {
    for (;;) pause();
  };
}
