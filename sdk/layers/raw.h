// Queries of the target without the layers. If the target lacks the function or returns an error, the result is empty.
#ifndef BACKPLANE_SDK_LAYERS_RAW_H_
#define BACKPLANE_SDK_LAYERS_RAW_H_

#include <string>
#include <vector>

#include "sdk/layers/layer.h"

namespace backplane::layers::raw {

std::string ProgramName(Stack& stack, PJRT_LoadedExecutable* executable);
// Returns the number of outputs on each device; 0 if unknown.
size_t NumOutputs(Stack& stack, PJRT_LoadedExecutable* executable);
std::vector<PJRT_Device*> AddressableDevices(Stack& stack, PJRT_LoadedExecutable* executable);
// Returns -1 if unknown.
int DeviceId(Stack& stack, PJRT_Device* device);

}  // namespace backplane::layers::raw

#endif  // BACKPLANE_SDK_LAYERS_RAW_H_
