// Destroys no buffer.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args*) -> PJRT_Error* { return nullptr; };
}
