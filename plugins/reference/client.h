// The reference plugin's client: devices that are nothing but numbers, over ordinary host memory.
#ifndef BACKPLANE_PLUGINS_REFERENCE_CLIENT_H_
#define BACKPLANE_PLUGINS_REFERENCE_CLIENT_H_

#include <memory>
#include <vector>

#include "plugins/reference/workers.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/host_storage.h"

namespace backplane::reference {

// What running programs share; outlives the client as long as one runs.
struct Runtime {
  Runtime(const Topology& topology, std::chrono::milliseconds collective_time_limit);
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes);

  std::vector<int32_t> device_of_memory;
  std::vector<std::shared_ptr<HostMemoryCounter>> counters;  // by device
  Workers workers;
  LaunchRegistry launches;
  const std::chrono::milliseconds collective_time_limit;  // how long devices wait for one another
};

class ReferenceClient : public Client {
 public:
  ReferenceClient(Topology topology, std::chrono::milliseconds collective_time_limit);

  const Topology& topology() const override { return topology_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  bool IsHostMemory(int32_t) const override { return true; }
  size_t ZeroCopyAlignment(int32_t) const override { return 64; }  // hosts that share arrays ask for it
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override;
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override;

 private:
  const Topology topology_;
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace backplane::reference

#endif  // BACKPLANE_PLUGINS_REFERENCE_CLIENT_H_
