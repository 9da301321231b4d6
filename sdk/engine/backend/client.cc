#include "sdk/engine/backend/client.h"

#include <unistd.h>

#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "sdk/backend/exceptions.h"
#include "sdk/engine/backend/executable.h"

namespace backplane::engine {
namespace {

constexpr int64_t kExitMilliseconds = 3000;

// What the machine has, or the control group of this process may use of it. 0: not known.
int64_t HostMemoryBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  int64_t bytes = pages > 0 && page > 0 ? pages * page : 0;
  int64_t allowed = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> allowed && allowed > 0)  // a word instead of a number: no limit
    bytes = bytes == 0 ? allowed : std::min(bytes, allowed);
  return bytes;
}

class PoolStorage : public Storage {
 public:
  PoolStorage(MemoryPool* pool, void* block, size_t size) : pool_(pool), block_(block), size_(size) {}
  ~PoolStorage() override { pool_->Free(block_); }
  void* data() const override { return block_; }
  size_t size() const override { return size_; }

 private:
  MemoryPool* pool_;
  void* block_;
  size_t size_;
};

}  // namespace

// At exit a program may still run, and the libraries warm up, in threads that use what libraries keep in static
// objects. Those are made at first use and destroyed in the reverse order: an exit handler that was registered before
// them runs too late. So there is one for what was made before it, another after the libraries' first use (see
// WaitAtExit), and in the main thread, whose exit is the usual one, a thread-local object, which goes before any
// handler.
Runtime& Runtime::Get() {
  static Runtime* const runtime = [] {
    auto* made = new Runtime(ThreadPool::Options());
    WaitAtExit();
    return made;
  }();
  return *runtime;
}

void Runtime::WaitAtExit() {
  std::atexit([] { Get().EndProcess(); });
}

void Runtime::EndProcess() {
  static const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kExitMilliseconds);
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait_until(lock, deadline, [this] { return running_ == 0; });
}

void Runtime::Schedule(absl::AnyInvocable<void()> work) {
  struct MainThreadEnd {
    const bool is_main = getpid() == gettid();
    ~MainThreadEnd() {
      if (is_main) Get().EndProcess();
    }
  };
  static thread_local const MainThreadEnd end;
  (void)end.is_main;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++running_;
  }
  pool.Schedule([this, work = std::move(work)]() mutable {
    (void)Caught([&] { work(); });  // promises that it held are broken
    work = nullptr;                 // what it holds goes before the count does
    std::lock_guard<std::mutex> lock(mutex_);
    if (--running_ == 0) idle_.notify_all();
  });
}

void Runtime::WaitUntilIdle(int64_t milliseconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return running_ == 0; });
}

// Not from a closure of its own: a host that destroys its client in a callback of a running program waits in vain, so
// the time is bounded here too.
EngineClient::~EngineClient() { runtime_.WaitUntilIdle(kExitMilliseconds); }

absl::StatusOr<std::shared_ptr<Storage>> EngineClient::Allocate(int32_t, size_t bytes) {
  void* block = runtime_.memory.Allocate(bytes);
  if (block == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("cpu: no memory for ", bytes, " bytes; ",
                                                     runtime_.memory.GetStatistics().bytes_in_use, " are in use"));
  }
  return std::make_shared<PoolStorage>(&runtime_.memory, block, bytes);
}

absl::StatusOr<std::unique_ptr<LoadedExecutable>> EngineClient::Load(std::shared_ptr<const Executable> executable) {
  return LoadEngineExecutable(this, std::move(executable));
}

absl::StatusOr<MemoryStats> EngineClient::GetMemoryStats(int32_t) const {
  const MemoryPool::Statistics s = runtime_.memory.GetStatistics();
  MemoryStats m;
  m.bytes_in_use = s.bytes_in_use;
  m.peak_bytes_in_use = s.peak_bytes_in_use;
  m.num_allocs = s.num_allocations;
  m.largest_alloc_size = s.largest_alloc_bytes;
  m.bytes_reserved = s.bytes_reserved;
  m.peak_bytes_reserved = s.peak_bytes_reserved;
  m.largest_free_block_bytes = s.largest_free_block_bytes;
  m.pool_bytes = s.bytes_reserved;
  static const int64_t host_bytes = HostMemoryBytes();
  if (s.bytes_limit > 0) {
    m.bytes_limit = s.bytes_limit;
  } else if (host_bytes > 0) {
    m.bytes_limit = host_bytes;
  }
  return m;
}

absl::Status EngineClient::ClearMemoryStats(int32_t) {
  runtime_.memory.ResetPeaks();
  return absl::OkStatus();
}

void EngineClient::Schedule(std::function<void()> task) { runtime_.Schedule(std::move(task)); }

}  // namespace backplane::engine
