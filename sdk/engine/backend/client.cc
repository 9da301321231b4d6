#include "sdk/engine/backend/client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/types/primitive_type.h"
#include "core/types/status_macros.h"
#include "sdk/backend/block_cache.h"
#include "sdk/backend/faults.h"
#include "sdk/backend/host_limits.h"
#include "sdk/engine/backend/executable.h"

namespace backplane::engine {
namespace {

constexpr int64_t kExitMilliseconds = 3000;

class PoolStorage : public Storage {
 public:
  PoolStorage(std::shared_ptr<PackedWeights> packed_weights, size_t size)
      : packed_weights_(std::move(packed_weights)), size_(size) {}
  ~PoolStorage() override {
    packed_weights_->Drop(forms_);
    if (block_ != nullptr) packed_weights_->budget().Free(block_);
  }
  absl::Status Allocate() {
    ASSIGN_OR_RETURN(block_, packed_weights_->budget().Allocate(size_, "cpu"));
    return absl::OkStatus();
  }
  void* data() const override { return block_; }
  size_t size() const override { return size_; }
  KeptForms* kept_forms() override { return &forms_; }
  void BeginHostAccess() override { packed_weights_->BeginHostAccess(forms_); }
  void EndHostAccess() override { packed_weights_->EndHostAccess(forms_); }

 private:
  const std::shared_ptr<PackedWeights> packed_weights_;  // which holds the budget
  KeptForms forms_;
  void* block_ = nullptr;
  const size_t size_;
};

// Free memory is kept up to this part of what the host has.
constexpr int64_t kKeptMemoryDivisor = 4;
// Packed weights are kept up to this part of the client's memory limit, or up to so many bytes if it has none.
constexpr int64_t kPackedWeightsDivisor = 8, kMostPackedWeights = int64_t{1} << 30;

// Processes of one job on one machine work at the same time. With fewer CPUs for each of them no thread spins, because
// another process would have to wait for it.
constexpr int kCpusForSpinning = 4;

Runtime* MakeRuntime() {
  ThreadPool::Options threads;
  Workers::Options tasks;
  // A thread that spins would take its time from those that work.
  if (IsCpuTimeRationed()) threads.spin_microseconds = 0;
  tasks.spin_microseconds = threads.spin_microseconds;
  MemoryPool::Options blocks;
  if (const int64_t bytes = ReadHostMemoryBytes(); bytes > 0) {
    blocks.max_kept_bytes = std::min(blocks.max_kept_bytes, static_cast<size_t>(bytes / kKeptMemoryDivisor));
    blocks.trim_above_bytes = static_cast<size_t>(bytes);
  }
  return new Runtime(threads, tasks, blocks);
}

}  // namespace

// At exit a program may still run, and the libraries warm up, in threads that use what libraries keep in static
// objects. Those are made at first use and destroyed in the reverse order: an exit handler that was registered before
// them runs too late. So there is one for what was made before it, another after the libraries' first use (see
// WaitAtExit), and in the main thread, whose exit is the usual one, a thread-local object, which goes before any
// handler.
Runtime& Runtime::Get() {
  static Runtime* const runtime = [] {
    Runtime* made = MakeRuntime();
    WaitAtExit();
    return made;
  }();
  return *runtime;
}

void Runtime::WaitAtExit() {
  std::atexit([] { Get().EndProcess(); });
}

void Runtime::EndProcess() {
  using Clock = std::chrono::steady_clock;
  static const auto deadline = Clock::now() + std::chrono::milliseconds(kExitMilliseconds);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  workers.WaitUntilIdle(std::max(left, std::chrono::milliseconds(0)));
}

void Runtime::RegisterMainThread() {
  struct MainThreadExitHook {
    const bool is_main = getpid() == gettid();
    ~MainThreadExitHook() {
      if (is_main) Get().EndProcess();
    }
  };
  static thread_local const MainThreadExitHook end;
  (void)end.is_main;
}

void Runtime::Schedule(absl::AnyInvocable<void()> work, Workers::Kind kind) {
  RegisterMainThread();
  workers.Schedule(std::move(work), kind);
}

void Runtime::ScheduleMember(int64_t launch, int64_t members, absl::AnyInvocable<void()> work) {
  RegisterMainThread();
  workers.ScheduleMember(launch, members, std::move(work));
}

void Runtime::WaitUntilIdle(int64_t milliseconds) { workers.WaitUntilIdle(std::chrono::milliseconds(milliseconds)); }

EngineClient::EngineClient(Topology topology, std::chrono::milliseconds collective_time_limit, int64_t limit_bytes,
                           Subnormals subnormals, std::shared_ptr<ProcessGroup> group)
    : topology_(std::move(topology)),
      collective_time_limit_(collective_time_limit),
      runtime_(Runtime::Get()),
      budget_(std::make_shared<MemoryBudget>(limit_bytes, &runtime_.memory, &runtime_.workers)),
      packed_weights_(std::make_shared<PackedWeights>(
          budget_, limit_bytes > 0 ? limit_bytes / kPackedWeightsDivisor : kMostPackedWeights)),
      subnormals_(subnormals),
      group_(std::move(group)) {
  if (group_ != nullptr && group_->processes_here() > 1 &&
      CountAvailableCpus() < kCpusForSpinning * group_->processes_here()) {
    runtime_.pool.StopSpinning();
    runtime_.workers.StopSpinning();
  }
  budget_->SetReclaimer([weights = std::weak_ptr<PackedWeights>(packed_weights_)](int64_t bytes) -> int64_t {
    const std::shared_ptr<PackedWeights> held = weights.lock();
    return held == nullptr ? 0 : held->Reclaim(bytes);
  });
}

// Not from a closure of its own: a host that destroys its client in a callback of a running program waits in vain, so
// the time is bounded here too.
// First the other processes learn that this one leaves: programs that wait for them end then.
EngineClient::~EngineClient() {
  EngineClient::Close();
  runtime_.WaitUntilIdle(kExitMilliseconds);
}

void EngineClient::Close() {
  if (group_ != nullptr) group_->Leave();
}

absl::StatusOr<std::shared_ptr<Storage>> EngineClient::Allocate(int32_t, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kStorage));
  auto storage = std::allocate_shared<PoolStorage>(CachedAllocator<PoolStorage>(), packed_weights_,
                                                   bytes);  // first, so that a block always has an owner
  RETURN_IF_ERROR(storage->Allocate());
  return storage;
}

size_t EngineClient::ViewAlignment(int32_t, PrimitiveType type) const {
  return static_cast<size_t>(std::max(1, ByteWidth(ComplexPart(type))));
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> EngineClient::Load(std::shared_ptr<const Executable> executable,
                                                                     const LoadOptions&) {
  return LoadEngineExecutable(this, std::move(executable));
}

// In use is what this client uses; the pool, from which all clients of the process take, is what was reserved.
absl::StatusOr<MemoryStats> EngineClient::GetMemoryStats(int32_t) const {
  const MemoryBudget::Statistics mine = budget_->GetStatistics();
  const MemoryPool::Statistics pool = runtime_.memory.GetStatistics();
  MemoryStats m;
  m.bytes_in_use = mine.bytes_in_use;
  m.peak_bytes_in_use = mine.peak_bytes_in_use;
  m.num_allocs = mine.num_allocations;
  m.largest_alloc_size = mine.largest_alloc_bytes;
  if (mine.bytes_limit > 0) m.bytes_limit = mine.bytes_limit;
  m.bytes_reserved = pool.bytes_reserved;
  m.peak_bytes_reserved = pool.peak_bytes_reserved;
  m.largest_free_block_bytes = pool.largest_free_block_bytes;
  m.pool_bytes = pool.bytes_reserved;
  return m;
}

absl::Status EngineClient::ClearMemoryStats(int32_t) {
  budget_->ResetPeaks();
  runtime_.memory.ResetPeaks();
  return absl::OkStatus();
}

void EngineClient::Schedule(std::function<void()> task) { runtime_.Schedule(std::move(task)); }

}  // namespace backplane::engine
