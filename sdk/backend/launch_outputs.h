// Chooses the memory of the outputs of a launch from the executable's signature, for all backends.
#ifndef BACKPLANE_SDK_BACKEND_LAUNCH_OUTPUTS_H_
#define BACKPLANE_SDK_BACKEND_LAUNCH_OUTPUTS_H_

#include <cstdint>
#include <vector>

#include "sdk/backend/backend.h"

namespace backplane {

// Returns, by device of the topology and output, the id of the device's memory with the output's memory kind, or of its
// default memory if it has none of that kind.
std::vector<std::vector<int32_t>> ChooseOutputMemories(const Topology& topology, const ExecutableSignature& signature);

// Returns the argument whose memory `output` reuses, or null. This is the argument of the output's alias, if the
// request donates it and it has the output's shape and layout in `memory`, the memory of the output.
const DeviceArray* FindReusedArgument(const ExecuteRequest& request, const OutputInfo& output, int32_t memory);

// Returns the statistics that the signature determines: bytes of arguments, outputs and aliases.
CompiledMemoryStats ComputeEntryMemoryStats(const ExecutableSignature& signature);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_LAUNCH_OUTPUTS_H_
