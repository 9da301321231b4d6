// A function is missing.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN { table->PJRT_Buffer_IsDeleted = nullptr; }
