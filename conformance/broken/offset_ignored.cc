// Writes each piece at offset 0.
#include "conformance/broken/forward.h"

using backplane::broken::real;

BROKEN_PLUGIN {
  table->PJRT_AsyncHostToDeviceTransferManager_TransferData =
      [](PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args) {
        args->offset = 0;
        return real->PJRT_AsyncHostToDeviceTransferManager_TransferData(args);
      };
}
