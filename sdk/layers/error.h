// Errors that layers create. They behave like errors of the target; their first word tells them apart.
#ifndef BACKPLANE_SDK_LAYERS_ERROR_H_
#define BACKPLANE_SDK_LAYERS_ERROR_H_

#include "sdk/layers/layer.h"

namespace backplane::layers {

// Each of these handles a call on an error that a layer created and returns true. It returns false if the error is the
// target's. `result` is what the function returns.
bool LayerErrorDestroy(PJRT_Error_Destroy_Args* args);
bool LayerErrorMessage(PJRT_Error_Message_Args* args);
bool LayerErrorGetCode(PJRT_Error_GetCode_Args* args, PJRT_Error** result);
bool LayerErrorForEachPayload(PJRT_Error_ForEachPayload_Args* args, PJRT_Error** result);

// Returns an error that owns `inner` and behaves like it. If it is destroyed through its own table of functions, layers
// see this as a call of PJRT_Error_Destroy. For layers that track errors: since 0.107 hosts may destroy an error
// without the plugin's table.
PJRT_Error* WrapError(Stack& stack, PJRT_Error* inner);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_ERROR_H_
