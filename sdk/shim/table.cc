// The table: all slots are filled, and each goes through the guard.
#include "sdk/shim/entries.h"
#include "sdk/shim/guard.h"

namespace backplane::shim {
namespace {

PJRT_Api MakeTable() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.extension_start = GetExtensionChain();
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  api.PJRT_Error_Destroy = &Error_Destroy;
  api.PJRT_Error_Message = &Error_Message;
#define BACKPLANE_X(name) api.PJRT_##name = BP_ENTRY(PJRT_##name, &name);
  BACKPLANE_SLOTS(BACKPLANE_X)
#undef BACKPLANE_X
#define BACKPLANE_X(name) api.PJRT_##name = BP_UNSUPPORTED(PJRT_##name);
  BACKPLANE_UNSUPPORTED_SLOTS(BACKPLANE_X)
#undef BACKPLANE_X
  return api;
}

}  // namespace

const PJRT_Api* GetTable() {
  static const PJRT_Api api = MakeTable();
  return &api;
}

}  // namespace backplane::shim
