// Calls each callback twice.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) {
    struct Two {
      PJRT_Event_OnReadyCallback callback;
      void* arg;
    };
    PJRT_Event_OnReady_Args changed = *args;
    changed.user_arg = new Two{args->callback, args->user_arg};
    changed.callback = [](PJRT_Error* error, void* arg) {
      const Two two = *static_cast<Two*>(arg);
      delete static_cast<Two*>(arg);
      two.callback(error, two.arg);
      two.callback(nullptr, two.arg);
    };
    return real->PJRT_Event_OnReady(&changed);
  };
}
