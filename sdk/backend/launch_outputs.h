// What every backend does for the outputs of a launch, by the executable's signature.
#ifndef BACKPLANE_SDK_BACKEND_LAUNCH_OUTPUTS_H_
#define BACKPLANE_SDK_BACKEND_LAUNCH_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "sdk/backend/backend.h"

namespace backplane {

// For each device of the topology and each output: the id of the device's memory of the output's kind, or of its
// default memory where it has none of that kind.
std::vector<std::vector<int32_t>> ChooseOutputMemories(const Topology& topology, const ExecutableSignature& signature);

// Returns the argument whose memory becomes that of `output`, or null. An argument serves where the output's alias
// names it, the request donates it, and it has the output's shape and layout in `memory`, where the output is to be.
const DeviceArray* FindReusedArgument(const ExecuteRequest& request, const OutputInfo& output, int32_t memory);

// Returns the statistics that follow from the signature: bytes of arguments, outputs and aliases.
CompiledMemoryStats EntryMemoryStats(const ExecutableSignature& signature);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_LAUNCH_OUTPUTS_H_
