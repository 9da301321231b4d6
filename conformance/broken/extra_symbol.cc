// Exports a symbol that may collide with those of others.
#include "conformance/broken/forward.h"

extern "C" __attribute__((visibility("default"))) int a_name_of_others(void);
extern "C" int a_name_of_others(void) { return 1; }

BROKEN_PLUGIN { table->extension_start = table->extension_start; }
