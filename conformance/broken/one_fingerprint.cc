// All programs have the same fingerprint.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Executable_Fingerprint = [](PJRT_Executable_Fingerprint_Args* args) -> PJRT_Error* {
    args->executable_fingerprint = "print";
    args->executable_fingerprint_size = 5;
    return nullptr;
  };
}
