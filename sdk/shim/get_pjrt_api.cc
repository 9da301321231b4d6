// The one symbol that a plugin exports. Compiled into every plugin itself: what comes out of an archive stays hidden.
#include "sdk/shim/entries.h"

extern "C" PJRT_CAPI_EXPORT const PJRT_Api* GetPjrtApi() { return backplane::shim::Table(); }
