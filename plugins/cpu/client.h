// The CPU plugin's client: devices that share one thread pool and one memory pool.
#ifndef BACKPLANE_PLUGINS_CPU_CLIENT_H_
#define BACKPLANE_PLUGINS_CPU_CLIENT_H_

#include <memory>

#include "plugins/cpu/runtime/memory_pool.h"
#include "plugins/cpu/runtime/thread_pool.h"
#include "sdk/backend/backend.h"

namespace backplane::cpu {

// Threads and memory of the process: shared by all clients, never destroyed, since buffers may outlive their client.
struct Runtime {
  ThreadPool pool;
  MemoryPool memory;
  explicit Runtime(const ThreadPool::Options& options) : pool(options) {}
  static Runtime& Get();
};

class CpuClient : public Client {
 public:
  explicit CpuClient(Topology topology) : topology_(std::move(topology)), runtime_(Runtime::Get()) {}

  const Topology& topology() const override { return topology_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  bool IsHostMemory(int32_t) const override { return true; }
  size_t ZeroCopyAlignment(int32_t) const override { return 64; }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override;
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override;

 private:
  Topology topology_;
  Runtime& runtime_;
};

}  // namespace backplane::cpu

#endif  // BACKPLANE_PLUGINS_CPU_CLIENT_H_
