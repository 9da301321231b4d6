// A client of the engine: devices that share one thread pool and one memory pool.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_CLIENT_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_CLIENT_H_

#include <condition_variable>
#include <memory>
#include <mutex>

#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/engine/runtime/memory_pool.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

// Threads and memory of the process: shared by all clients, never destroyed, since buffers may outlive their client.
//
// A process may end while closures run, and its end destroys what LLVM and oneDNN keep in statics. So closures are
// counted, and both the end of a client and the end of the process wait for them, the latter for a bounded time.
struct Runtime {
  ThreadPool pool;
  MemoryPool memory;
  LaunchRegistry launches;  // run ids are unique in the process
  explicit Runtime(const ThreadPool::Options& options) : pool(options) {}
  static Runtime& Get();

  void Schedule(absl::AnyInvocable<void()> work);
  // Returns when no closure is running or waiting to run, or after so many milliseconds.
  void WaitUntilIdle(int64_t milliseconds);
  // Has the exit of the process wait for closures before it destroys any static object that has been made until now.
  static void WaitAtExit();

 private:
  void EndProcess();  // waits, in all calls together for a bounded time

  std::mutex mutex_;
  std::condition_variable idle_;
  int64_t running_ = 0;
};

class EngineClient : public Client {
 public:
  // `collective_time_limit`: how long the devices of a launch wait for one another.
  EngineClient(Topology topology, std::chrono::milliseconds collective_time_limit)
      : topology_(std::move(topology)), collective_time_limit_(collective_time_limit), runtime_(Runtime::Get()) {}

  ~EngineClient() override;

  const Topology& topology() const override { return topology_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  bool IsHostMemory(int32_t) const override { return true; }
  size_t ZeroCopyAlignment(int32_t) const override { return 64; }
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override;
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override;
  std::chrono::milliseconds collective_time_limit() const { return collective_time_limit_; }

 private:
  Topology topology_;
  const std::chrono::milliseconds collective_time_limit_;
  Runtime& runtime_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_CLIENT_H_
