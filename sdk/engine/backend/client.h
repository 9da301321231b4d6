// A client of the engine: devices that share one thread pool and one memory pool.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_CLIENT_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_CLIENT_H_

#include <memory>

#include "base/subnormals.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/collectives/rendezvous.h"
#include "sdk/backend/processes/exchange_transfers.h"
#include "sdk/backend/processes/process_group.h"
#include "sdk/backend/workers.h"
#include "sdk/engine/runtime/memory_budget.h"
#include "sdk/engine/runtime/memory_pool.h"
#include "sdk/engine/runtime/packed_weights.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

// The threads and the memory that all clients of the process share. Never destroyed, because buffers may outlive their
// client.
//
// A process may exit while tasks run, and its exit destroys static objects of LLVM and oneDNN that they use. Therefore
// both the destructor of a client and the exit of the process wait for tasks, the latter for a bounded time.
struct Runtime {
  ThreadPool pool;  // for kernels
  Workers workers;  // for programs and copies
  MemoryPool memory;
  LaunchRegistry launches;  // run ids are unique in the process
  Runtime(const ThreadPool::Options& threads, const Workers::Options& tasks, const MemoryPool::Options& blocks)
      : pool(threads), workers(tasks), memory(blocks) {}
  static Runtime& Get();

  // Like the functions of `workers`, but the exit of the process waits for these tasks.
  void Schedule(absl::AnyInvocable<void()> work, Workers::Kind kind = Workers::Kind::kFirst);
  void ScheduleMember(int64_t launch, int64_t members, absl::AnyInvocable<void()> work);
  // Returns when no task is running or queued, or after this time.
  void WaitUntilIdle(int64_t milliseconds);
  // Makes the exit of the process wait for tasks before it destroys any static object that exists at the time of this
  // call.
  static void WaitAtExit();

 private:
  void EndProcess();  // waits; the total time of all calls is bounded
  static void RegisterMainThread();
};

class EngineClient : public Client {
 public:
  // `collective_time_limit`: how long the devices of a launch wait for one another. `limit_bytes`: the limit for
  // buffers, results, temporary memory and constants of this client together; 0: no limit. `subnormals`: how its
  // programs compute with subnormal numbers. `group`: the processes of the program, whose topology this must be; null:
  // there is only this one.
  EngineClient(Topology topology, std::chrono::milliseconds collective_time_limit, int64_t limit_bytes,
               Subnormals subnormals = Subnormals::kFlushResults, std::shared_ptr<ProcessGroup> group = nullptr);

  ~EngineClient() override;
  void Close() override;  // leaves the other processes

  const Topology& topology() const override { return topology_; }
  void ReportProcessFailure(int32_t process, const std::string& why) override {
    if (group_ != nullptr) group_->ReportFailure(process, why);
  }
  bool addressable(int32_t device) const override { return group_ == nullptr || group_->addressable(device); }
  TransferService* transfers() override { return group_ == nullptr ? nullptr : &transfers_; }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  bool IsHostMemory(int32_t) const override { return true; }
  size_t ZeroCopyAlignment(int32_t) const override { return 64; }
  size_t ViewAlignment(int32_t, PrimitiveType type) const override;
  absl::StatusOr<std::unique_ptr<LoadedExecutable>> Load(std::shared_ptr<const Executable> executable,
                                                         const LoadOptions&) override;
  absl::StatusOr<MemoryStats> GetMemoryStats(int32_t device) const override;
  absl::Status ClearMemoryStats(int32_t device) override;
  void Schedule(std::function<void()> task) override;
  std::chrono::milliseconds collective_time_limit() const { return collective_time_limit_; }
  const std::shared_ptr<MemoryBudget>& budget() const { return budget_; }
  const std::shared_ptr<PackedWeights>& packed_weights() const { return packed_weights_; }
  Subnormals subnormals() const { return subnormals_; }
  const std::shared_ptr<ProcessGroup>& group() const { return group_; }

 private:
  Topology topology_;
  const std::chrono::milliseconds collective_time_limit_;
  Runtime& runtime_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<PackedWeights> packed_weights_;
  const Subnormals subnormals_;
  const std::shared_ptr<ProcessGroup> group_;
  ExchangeTransfers transfers_{this, group_, collective_time_limit_};
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_CLIENT_H_
