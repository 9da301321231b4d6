// Errors that layers make, as the target's table would: whose error it is shows in its first word.
#ifndef BACKPLANE_SDK_LAYERS_ERROR_H_
#define BACKPLANE_SDK_LAYERS_ERROR_H_

#include "sdk/layers/layer.h"

namespace backplane::layers {

// Each answers for an error that a layer made and returns true, or returns false: the error is the target's. `result`
// is what the function returns.
bool LayerErrorDestroy(PJRT_Error_Destroy_Args* args);
bool LayerErrorMessage(PJRT_Error_Message_Args* args);
bool LayerErrorGetCode(PJRT_Error_GetCode_Args* args, PJRT_Error** result);
bool LayerErrorForEachPayload(PJRT_Error_ForEachPayload_Args* args, PJRT_Error** result);

// An error that stands for `inner`, which it owns, and answers as it does; destroying it through its own table of
// functions is seen by the layers as a call of PJRT_Error_Destroy. For layers that follow the life of errors, which
// hosts may destroy without the plugin's table since 0.107.
PJRT_Error* WrapError(Stack& stack, PJRT_Error* inner);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_ERROR_H_
