// Forgets callbacks.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args*) -> PJRT_Error* { return nullptr; };
}
