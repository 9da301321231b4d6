// Questions that layers ask the target beside the layers. What the target lacks or refuses gives the empty answer.
#ifndef BACKPLANE_SDK_LAYERS_RAW_H_
#define BACKPLANE_SDK_LAYERS_RAW_H_

#include <string>
#include <vector>

#include "sdk/layers/layer.h"

namespace backplane::layers::raw {

std::string ProgramName(Stack& stack, PJRT_LoadedExecutable* executable);
// Outputs on each device; 0 when not known.
size_t NumOutputs(Stack& stack, PJRT_LoadedExecutable* executable);
std::vector<PJRT_Device*> AddressableDevices(Stack& stack, PJRT_LoadedExecutable* executable);
// -1 when not known.
int DeviceId(Stack& stack, PJRT_Device* device);

}  // namespace backplane::layers::raw

#endif  // BACKPLANE_SDK_LAYERS_RAW_H_
