// Deletes no buffer.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Buffer_Delete = [](PJRT_Buffer_Delete_Args*) -> PJRT_Error* { return nullptr; };
}
