#include "sdk/backend/host_storage.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

void UpdateMaximum(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

class HostStorage : public Storage {
 public:
  HostStorage(size_t size, std::shared_ptr<HostMemoryCounter> counter) : size_(size), counter_(std::move(counter)) {}
  ~HostStorage() override {
    std::free(data_);
    if (counted_) counter_->Remove(static_cast<int64_t>(size_));
  }
  absl::Status Allocate() {
    if (counter_ != nullptr) {
      RETURN_IF_ERROR(counter_->Add(static_cast<int64_t>(size_)));
      counted_ = true;
    }
    // aligned_alloc requires a multiple of the alignment. Zero bytes still need an address.
    const size_t rounded = (size_ / kHostStorageAlignment + 1) * kHostStorageAlignment;
    data_ = std::aligned_alloc(kHostStorageAlignment, rounded);
    if (data_ == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("allocate: the system has no memory for ", size_, " bytes"));
    }
    return absl::OkStatus();
  }
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_ = nullptr;
  const size_t size_;
  const std::shared_ptr<HostMemoryCounter> counter_;
  bool counted_ = false;
};

}  // namespace

absl::Status HostMemoryCounter::Add(int64_t bytes) {
  int64_t before = in_use_.load(std::memory_order_relaxed);
  do {
    if (limit_ > 0 && before > limit_ - bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("allocate: no memory for ", bytes, " bytes: ", before, " are in use, the limit is ", limit_));
    }
  } while (!in_use_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  if (total_ != nullptr) {
    if (absl::Status status = total_->Add(bytes); !status.ok()) {
      in_use_.fetch_sub(bytes, std::memory_order_relaxed);
      return status;
    }
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  UpdateMaximum(largest_, bytes);
  UpdateMaximum(peak_, before + bytes);
  return absl::OkStatus();
}

void HostMemoryCounter::Remove(int64_t bytes) {
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  if (total_ != nullptr) total_->Remove(bytes);
}

MemoryStats HostMemoryCounter::Stats() const {
  MemoryStats stats;
  stats.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  stats.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  stats.num_allocs = allocations_.load(std::memory_order_relaxed);
  stats.largest_alloc_size = largest_.load(std::memory_order_relaxed);
  if (limit_ > 0) {
    stats.bytes_limit = limit_;
  } else if (total_ != nullptr && total_->limit_ > 0) {
    stats.bytes_limit = total_->limit_;
  }
  return stats;
}

void HostMemoryCounter::Clear() {
  peak_.store(in_use_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  allocations_.store(0, std::memory_order_relaxed);
  largest_.store(0, std::memory_order_relaxed);
}

absl::StatusOr<std::shared_ptr<Storage>> AllocateHostStorage(size_t bytes, std::shared_ptr<HostMemoryCounter> counter) {
  if (bytes > SIZE_MAX / 2) {
    return absl::ResourceExhaustedError(absl::StrCat("allocate: ", bytes, " bytes are more than there can be"));
  }
  auto storage = std::make_shared<HostStorage>(bytes, std::move(counter));
  RETURN_IF_ERROR(storage->Allocate());
  return storage;
}

}  // namespace backplane
