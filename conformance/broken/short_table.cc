// The table says less than its minor has.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN { table->struct_size -= 12 * sizeof(void*); }
