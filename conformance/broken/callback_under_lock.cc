// Holds a lock while a callback runs.
#include <mutex>

#include "conformance/broken/forward.h"

using backplane::broken::real;

static std::mutex lock;

BROKEN_PLUGIN {
  table->PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) {
    struct One {
      PJRT_Event_OnReadyCallback callback;
      void* arg;
    };
    PJRT_Event_OnReady_Args changed = *args;
    changed.user_arg = new One{args->callback, args->user_arg};
    changed.callback = [](PJRT_Error* error, void* arg) {
      const One one = *static_cast<One*>(arg);
      delete static_cast<One*>(arg);
      std::lock_guard<std::mutex> hold(lock);
      one.callback(error, one.arg);
    };
    return real->PJRT_Event_OnReady(&changed);
  };
  table->PJRT_Client_BufferFromHostBuffer = [](PJRT_Client_BufferFromHostBuffer_Args* args) {
    std::lock_guard<std::mutex> hold(lock);
    return real->PJRT_Client_BufferFromHostBuffer(args);
  };
}
