// The topology has another platform name.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_TopologyDescription_PlatformName = [](PJRT_TopologyDescription_PlatformName_Args* args) -> PJRT_Error* {
    args->platform_name = "other";
    args->platform_name_size = 5;
    return nullptr;
  };
}
