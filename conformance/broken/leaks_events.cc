// Destroys no event.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args*) -> PJRT_Error* { return nullptr; };
}
