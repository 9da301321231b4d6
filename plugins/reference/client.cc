#include "plugins/reference/client.h"

#include <utility>

#include "plugins/reference/executable.h"

namespace backplane::reference {

Runtime::Runtime(const Topology& topology, std::chrono::milliseconds time_limit) : collective_time_limit(time_limit) {
  for (const MemoryInfo& memory : topology.memories) device_of_memory.push_back(memory.devices.front());
  for (size_t d = 0; d < topology.devices.size(); ++d) counters.push_back(std::make_shared<HostMemoryCounter>());
}

absl::StatusOr<std::shared_ptr<Storage>> Runtime::Allocate(int32_t memory, size_t bytes) {
  return AllocateHostStorage(bytes, counters[device_of_memory[memory]]);
}

ReferenceClient::ReferenceClient(Topology topology, std::chrono::milliseconds collective_time_limit)
    : topology_(std::move(topology)), runtime_(std::make_shared<Runtime>(topology_, collective_time_limit)) {}

absl::StatusOr<std::shared_ptr<Storage>> ReferenceClient::Allocate(int32_t memory, size_t bytes) {
  return runtime_->Allocate(memory, bytes);
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> ReferenceClient::Load(std::shared_ptr<const Executable> executable) {
  return LoadReference(std::move(executable), topology_, runtime_);
}

absl::StatusOr<MemoryStats> ReferenceClient::GetMemoryStats(int32_t device) const {
  return runtime_->counters[device]->Stats();
}

absl::Status ReferenceClient::ClearMemoryStats(int32_t device) {
  runtime_->counters[device]->Clear();
  return absl::OkStatus();
}

void ReferenceClient::Schedule(std::function<void()> task) { runtime_->workers.Schedule(std::move(task)); }

}  // namespace backplane::reference
