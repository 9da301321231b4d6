#include "sdk/host/handle.h"

namespace backplane::host::internal {

#define BP_DEFINE_DESTROY(type, fn, field)           \
  void Destroy(const Plugin& plugin, type* object) { \
    BP_PJRT_ARGS(plugin, a, fn);                     \
    a.field = object;                                \
    BP_PJRT_CALL(plugin, fn, a).IgnoreError();       \
  }

BP_DEFINE_DESTROY(PJRT_Client, PJRT_Client_Destroy, client)
BP_DEFINE_DESTROY(PJRT_Event, PJRT_Event_Destroy, event)
BP_DEFINE_DESTROY(PJRT_Buffer, PJRT_Buffer_Destroy, buffer)
BP_DEFINE_DESTROY(PJRT_Executable, PJRT_Executable_Destroy, executable)
BP_DEFINE_DESTROY(PJRT_LoadedExecutable, PJRT_LoadedExecutable_Destroy, executable)
BP_DEFINE_DESTROY(PJRT_TopologyDescription, PJRT_TopologyDescription_Destroy, topology)
BP_DEFINE_DESTROY(PJRT_ExecuteContext, PJRT_ExecuteContext_Destroy, context)
BP_DEFINE_DESTROY(PJRT_AsyncHostToDeviceTransferManager, PJRT_AsyncHostToDeviceTransferManager_Destroy,
                  transfer_manager)
BP_DEFINE_DESTROY(PJRT_CopyToDeviceStream, PJRT_CopyToDeviceStream_Destroy, stream)
BP_DEFINE_DESTROY(PJRT_AsyncTrackingEvent, PJRT_AsyncTrackingEvent_Destroy, event)

}  // namespace backplane::host::internal
