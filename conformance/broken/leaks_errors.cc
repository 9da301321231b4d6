// Destroys no error.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args*) {};
}
