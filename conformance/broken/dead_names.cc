// All strings of devices share one buffer, so that each overwrites the previous one.
#include "conformance/broken/forward.h"

using backplane::broken::real;

static const char* Store(const char* text, size_t size) {
  static char place[512];
  std::memcpy(place, text, std::min(size, sizeof(place)));
  return place;
}

BROKEN_PLUGIN {
  table->PJRT_DeviceDescription_Kind = [](PJRT_DeviceDescription_Kind_Args* args) {
    PJRT_Error* error = real->PJRT_DeviceDescription_Kind(args);
    args->device_kind = Store(args->device_kind, args->device_kind_size);
    return error;
  };
  table->PJRT_DeviceDescription_ToString = [](PJRT_DeviceDescription_ToString_Args* args) {
    PJRT_Error* error = real->PJRT_DeviceDescription_ToString(args);
    args->to_string = Store(args->to_string, args->to_string_size);
    return error;
  };
}
