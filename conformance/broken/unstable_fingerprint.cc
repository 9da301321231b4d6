// Returns another fingerprint each time.
#include "conformance/broken/forward.h"

BROKEN_PLUGIN {
  table->PJRT_Executable_Fingerprint = [](PJRT_Executable_Fingerprint_Args* args) -> PJRT_Error* {
    static int count = 0;
    auto* print = new std::string("print " + std::to_string(++count));
    args->executable_fingerprint = print->data();
    args->executable_fingerprint_size = print->size();
    return nullptr;
  };
}
