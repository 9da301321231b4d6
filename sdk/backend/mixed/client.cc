#include "sdk/backend/mixed/client.h"

#include <utility>

#include "sdk/backend/mixed/executable.h"

namespace backplane::mixed {

Runtime::Runtime(Topology topology, std::shared_ptr<DeviceMemory> memory, std::chrono::milliseconds time_limit,
                 int64_t limit_bytes, std::shared_ptr<ProcessGroup> processes)
    : memories(std::make_shared<MemorySpaces>(std::move(topology), std::move(memory), limit_bytes)),
      collective_time_limit(time_limit),
      group(std::move(processes)) {}

MixedClient::~MixedClient() { MixedClient::Close(); }

void MixedClient::Close() {
  if (runtime_->group != nullptr) runtime_->group->Leave();
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> MixedClient::Load(std::shared_ptr<const Executable> executable,
                                                                    const LoadOptions&) {
  return LoadMixed(std::move(executable), runtime_);
}

absl::Status MixedClient::ClearMemoryStats(int32_t device) {
  memories().ClearStats(device);
  return absl::OkStatus();
}

}  // namespace backplane::mixed
