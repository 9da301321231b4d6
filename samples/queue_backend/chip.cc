#include "samples/queue_backend/chip.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/operation_trace.h"

namespace chip {
namespace {

constexpr uintptr_t kWindow = uintptr_t{1} << 62;  // not an address of any x86-64 or ARM process
constexpr size_t kAlignment = 256;

[[noreturn]] void Fault(const char* what) {
  std::fprintf(stderr, "the chip: %s\n", what);
  std::abort();
}

// The device's view of memory: pinned ranges, and the addresses that commands use.
struct Map {
  std::mutex mu;
  std::multimap<uintptr_t, size_t> pinned;
  std::multiset<uintptr_t> used;
  static Map& Get() {
    static Map* map = new Map;  // threads may still run while the process ends
    return *map;
  }
};

size_t Rounded(size_t bytes) { return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void* Reach(const void* address, size_t bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  if (at >= kWindow) return reinterpret_cast<void*>(at - kWindow);
  Map& map = Map::Get();
  std::lock_guard<std::mutex> lock(map.mu);
  for (auto i = map.pinned.begin(); i != map.pinned.end() && i->first <= at; ++i) {
    if (at + bytes <= i->first + i->second) return const_cast<void*>(address);
  }
  return nullptr;
}

void Pin(const void* data, size_t bytes) {
  Map& map = Map::Get();
  std::lock_guard<std::mutex> lock(map.mu);
  map.pinned.emplace(reinterpret_cast<uintptr_t>(data), bytes);
}

bool Unpin(const void* data) {
  Map& map = Map::Get();
  std::lock_guard<std::mutex> lock(map.mu);
  auto at = map.pinned.find(reinterpret_cast<uintptr_t>(data));
  if (at == map.pinned.end()) return false;
  map.pinned.erase(at);
  return true;
}

absl::StatusOr<void*> Memory::Allocate(size_t bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  const size_t rounded = bytes > capacity_ ? bytes : Rounded(bytes);
  void* inside = rounded > capacity_ - in_use_ ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (inside == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("allocate: no memory for ", bytes, " bytes: ", in_use_, " are in use of ", capacity_));
  }
  in_use_ += rounded;
  peak_ = std::max(peak_, in_use_);
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(inside) + kWindow);
}

void Memory::Free(void* address, size_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(address);
  {
    Map& map = Map::Get();
    std::lock_guard<std::mutex> lock(map.mu);
    auto used = map.used.lower_bound(first);
    if (used != map.used.end() && *used < first + Rounded(bytes))
      Fault("memory was freed under a command that uses it");
  }
  std::free(reinterpret_cast<void*>(first - kWindow));
  std::lock_guard<std::mutex> lock(mu_);
  in_use_ -= Rounded(bytes);
}

Memory::Use Memory::use() const {
  std::lock_guard<std::mutex> lock(mu_);
  return {in_use_, peak_, capacity_};
}

void Signal::Raise(bool failed) {
  std::vector<std::function<void(bool)>> next;
  {
    std::lock_guard<std::mutex> lock(mu_);
    raised_ = true;
    failed_ = failed;
    next = std::move(next_);
  }
  for (auto& n : next) n(failed);
}

void Signal::Then(std::function<void(bool)> next) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!raised_) {
      next_.push_back(std::move(next));
      return;
    }
  }
  next(failed_);
}

struct Thread::State {
  std::mutex mu;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  int64_t generation = 0;  // of the thread that takes tasks; counts ReleaseQueue
  int threads = 0;
  bool ending = false;
};

namespace {
thread_local const void* this_threads_state = nullptr;
thread_local int64_t this_threads_generation = 0;
}  // namespace

Thread::Thread() : state_(std::make_shared<State>()) { Start(state_); }

Thread::~Thread() {
  if (this_threads_state == state_.get()) Fault("a queue was ended on its own thread");
  std::unique_lock<std::mutex> lock(state_->mu);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->threads == 0; });
}

void Thread::Start(const std::shared_ptr<State>& state) {
  std::thread(&Loop, state, state->generation).detach();
  ++state->threads;
}

void Thread::Push(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->tasks.push_back(std::move(task));
  state_->changed.notify_all();
}

void Thread::ReleaseQueue() {
  std::lock_guard<std::mutex> lock(state_->mu);
  if (this_threads_state != state_.get() || this_threads_generation != state_->generation) return;
  ++state_->generation;  // this thread takes no further task after its current one
  Start(state_);
}

void Thread::Loop(std::shared_ptr<State> state, int64_t generation) {
  this_threads_state = state.get();
  this_threads_generation = generation;
  std::unique_lock<std::mutex> lock(state->mu);
  while (true) {
    state->changed.wait(lock,
                        [&] { return generation != state->generation || state->ending || !state->tasks.empty(); });
    if (generation != state->generation || state->tasks.empty()) break;
    std::function<void()> task = std::move(state->tasks.front());
    state->tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
  --state->threads;
  state->changed.notify_all();
}

struct Queue::Waiting {
  Command command;
  std::atomic<size_t> left;
  std::atomic<bool> failed{false};
};

void Queue::Push(Command command) {
  {
    Map& map = Map::Get();
    std::lock_guard<std::mutex> lock(map.mu);
    for (const void* address : command.addresses) map.used.insert(reinterpret_cast<uintptr_t>(address));
  }
  auto waiting = std::make_shared<Waiting>();
  waiting->command = std::move(command);
  const std::vector<std::shared_ptr<Signal>> after = std::move(waiting->command.after);
  waiting->left = after.size() + 1;
  const auto arrive = [this, waiting](bool failed) {
    if (failed) waiting->failed = true;
    if (waiting->left.fetch_sub(1) == 1) thread_.Push([this, waiting] { Run(waiting->command, waiting->failed); });
  };
  for (const std::shared_ptr<Signal>& signal : after) signal->Then(arrive);
  arrive(false);
}

void Queue::Run(Command& command, bool failed) {
  backplane::OperationTrace& trace = backplane::OperationTrace::Get();
  const bool traced = trace.Active();
  const int64_t start = traced ? trace.NowNs() : 0;
  absl::Status status = failed ? absl::AbortedError(absl::StrCat(command.name, ": what it waited for has failed"))
                               : backplane::CatchExceptions(command.work);
  if (traced) {
    const bool program = !command.program.empty();
    trace.RecordOnLine(trace.GetLine(name_), device_, program, command.name, command.program, start, trace.NowNs());
  }
  {
    Map& map = Map::Get();
    std::lock_guard<std::mutex> lock(map.mu);
    for (const void* address : command.addresses) map.used.erase(map.used.find(reinterpret_cast<uintptr_t>(address)));
  }
  command.work = nullptr;  // what it holds goes before anyone hears of its end
  // Reports to the driver before raising the signal, so that the driver hears of this command before any that waits for
  // it.
  const std::shared_ptr<Signal> signal = std::move(command.signal);
  failed = !status.ok();
  driver_->Push([ended = std::move(command.ended), status = std::move(status)] { ended(status); });
  command = Command();
  signal->Raise(failed);
}

}  // namespace chip
