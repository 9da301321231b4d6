// The size of the table is smaller than its minor version requires.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN { table->struct_size -= 12 * sizeof(void*); }
