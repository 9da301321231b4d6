// The only symbol that a plugin exports. Compiled into each plugin itself, because symbols from an archive stay hidden.
#include "sdk/shim/entries.h"

extern "C" PJRT_CAPI_EXPORT const PJRT_Api* GetPjrtApi() { return backplane::shim::GetTable(); }
