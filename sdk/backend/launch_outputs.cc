#include "sdk/backend/launch_outputs.h"

#include <utility>

#include "sdk/backend/host_copy.h"

namespace backplane {

std::vector<std::vector<int32_t>> ChooseOutputMemories(const Topology& topology, const ExecutableSignature& signature) {
  std::vector<std::vector<int32_t>> memories;
  for (const DeviceInfo& device : topology.devices) {
    std::vector<int32_t> of_device;
    for (const OutputInfo& output : signature.outputs) {
      int32_t chosen = device.memories.front();
      for (int32_t m : device.memories) {
        if (topology.memories[static_cast<size_t>(m)].kind == output.memory_kind) chosen = m;
      }
      of_device.push_back(chosen);
    }
    memories.push_back(std::move(of_device));
  }
  return memories;
}

const DeviceArray* FindReusedArgument(const ExecuteRequest& request, const OutputInfo& output, int32_t memory) {
  if (output.alias < 0) return nullptr;
  const size_t a = static_cast<size_t>(output.alias);
  const DeviceArray& argument = request.arguments[a];
  return request.donated[a] && argument.shape.Identical(output.shape) && argument.memory == memory ? &argument
                                                                                                   : nullptr;
}

CompiledMemoryStats ComputeEntryMemoryStats(const ExecutableSignature& signature) {
  CompiledMemoryStats stats;
  for (const ParameterInfo& p : signature.parameters) stats.argument += static_cast<int64_t>(StorageBytes(p.shape));
  for (const OutputInfo& output : signature.outputs) {
    const int64_t bytes = static_cast<int64_t>(StorageBytes(output.shape));
    stats.output += bytes;
    if (output.alias >= 0) stats.alias += bytes;
  }
  return stats;
}

}  // namespace backplane
