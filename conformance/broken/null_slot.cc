// A function of the table is null.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN { table->PJRT_Buffer_IsDeleted = nullptr; }
