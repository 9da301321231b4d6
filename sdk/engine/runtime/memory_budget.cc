#include "sdk/engine/runtime/memory_budget.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace backplane::engine {
namespace {

// Without any program's end for so long, an allocation waits no longer: what computes may itself wait for this caller,
// such as for a lock of the host.
constexpr std::chrono::seconds kStallTimeout{5};
// In all, though programs go on ending: they may be others', and what is held may stay.
constexpr std::chrono::seconds kMaxWait{60};

void RaisePeak(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

MemoryBudget::MemoryBudget(int64_t limit_bytes, MemoryPool* pool, Workers* workers)
    : limit_(limit_bytes), pool_(pool), workers_(workers) {}

// `leave`: room beyond what is held that stays free, or is in use by temporary memory.
bool MemoryBudget::TryReserve(int64_t bytes, Use use, int64_t leave) {
  int64_t before = in_use_.load(std::memory_order_relaxed);
  do {
    if (limit_ <= 0) continue;
    if (before > limit_ - bytes) return false;
    if (leave > 0 && before - temporary_.load(std::memory_order_relaxed) > limit_ - bytes - leave) return false;
  } while (!in_use_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  if (use == Use::kTemporary) temporary_.fetch_add(bytes, std::memory_order_relaxed);
  RaisePeak(peak_, before + bytes);
  RaisePeak(largest_, bytes);
  allocations_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void MemoryBudget::Unreserve(int64_t bytes, Use use) {
  if (use == Use::kTemporary) temporary_.fetch_sub(bytes, std::memory_order_relaxed);
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
}

int64_t MemoryBudget::LargestExpected() {
  if (limit_ <= 0) return 0;
  MutexLock lock(mutex_);
  return expected_.empty() ? 0 : expected_.rbegin()->first;
}

MemoryBudget::Expected::Expected(std::shared_ptr<MemoryBudget> budget, int64_t bytes)
    : budget_(bytes > 0 ? std::move(budget) : nullptr), bytes_(bytes) {
  if (budget_ == nullptr) return;
  MutexLock lock(budget_->mutex_);
  ++budget_->expected_[bytes_];
}

MemoryBudget::Expected::~Expected() {
  if (budget_ == nullptr) return;
  MutexLock lock(budget_->mutex_);
  auto at = budget_->expected_.find(bytes_);
  if (--at->second == 0) budget_->expected_.erase(at);
}

absl::Status MemoryBudget::OutOfMemoryError(uint64_t bytes, absl::string_view what) const {
  const int64_t in_use = in_use_.load(std::memory_order_relaxed);
  if (limit_ > 0) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": no memory for ", bytes, " bytes: ", in_use,
                                                     " are in use, the client's limit is ", limit_));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": no memory for ", bytes, " bytes: ", in_use, " are in use, the client has no limit"));
}

absl::Status MemoryBudget::ReserveOrWait(int64_t bytes, absl::string_view what, Use use, void** block) {
  bool leave_room = use == Use::kPersistent;
  bool last = false;
  std::chrono::steady_clock::time_point limit;  // set at the first wait
  for (;;) {
    const uint64_t changes = workers_ == nullptr ? 0 : workers_->changes();
    bool system_refuses = false;
    if (TryReserve(bytes, use, leave_room ? LargestExpected() : 0)) {
      if (block == nullptr) return absl::OkStatus();
      *block = pool_->Allocate(static_cast<size_t>(bytes));
      if (*block != nullptr) return absl::OkStatus();
      Unreserve(bytes, use);
      system_refuses = true;
    }
    if (reclaimer_ && reclaimer_(bytes) > 0) continue;
    if (!last && workers_ != nullptr) {
      const auto now = std::chrono::steady_clock::now();
      if (limit == std::chrono::steady_clock::time_point()) limit = now + kMaxWait;
      if (now < limit && workers_->WaitForChange(changes, kStallTimeout)) continue;
    }
    if (leave_room && !system_refuses) {  // nobody computes who could use the room
      leave_room = false;
      continue;
    }
    if (!last) {  // memory may have been freed by a thread that runs no task, which is no change
      pool_->Trim();
      last = true;
      continue;
    }
    if (!system_refuses) return OutOfMemoryError(static_cast<uint64_t>(bytes), what);
    return absl::ResourceExhaustedError(absl::StrCat(what, ": the system has no memory for ", bytes,
                                                     " bytes: ", in_use_.load(std::memory_order_relaxed),
                                                     " are in use, the client's limit is ", limit_));
  }
}

absl::StatusOr<void*> MemoryBudget::Allocate(size_t bytes, absl::string_view what, Use use) {
  if (bytes > static_cast<size_t>(INT64_MAX) || (limit_ > 0 && bytes > static_cast<size_t>(limit_))) {
    return OutOfMemoryError(bytes, what);
  }
  void* block = nullptr;
  absl::Status status = ReserveOrWait(static_cast<int64_t>(bytes), what, use, &block);
  if (!status.ok()) return status;
  return block;
}

void* MemoryBudget::TryAllocate(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  if (!TryReserve(wanted, Use::kPersistent, LargestExpected())) return nullptr;
  void* block = pool_->Allocate(bytes);
  if (block == nullptr) Unreserve(wanted, Use::kPersistent);
  return block;
}

void MemoryBudget::Free(void* block, Use use) {
  if (block == nullptr) return;
  const size_t bytes = MemoryPool::RequestedBytes(block);
  pool_->Free(block);
  Unreserve(static_cast<int64_t>(bytes), use);
}

absl::Status MemoryBudget::Reserve(int64_t bytes, absl::string_view what) {
  if (limit_ > 0 && bytes > limit_) return OutOfMemoryError(static_cast<uint64_t>(bytes), what);
  return ReserveOrWait(bytes, what, Use::kPersistent, nullptr);
}

void MemoryBudget::Release(int64_t bytes) { Unreserve(bytes, Use::kPersistent); }

MemoryBudget::Statistics MemoryBudget::GetStatistics() const {
  Statistics s;
  s.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  s.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  s.largest_alloc_bytes = largest_.load(std::memory_order_relaxed);
  s.num_allocations = allocations_.load(std::memory_order_relaxed);
  s.bytes_limit = limit_;
  return s;
}

void MemoryBudget::ResetPeaks() {
  peak_.store(in_use_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  largest_.store(0, std::memory_order_relaxed);
}

}  // namespace backplane::engine
