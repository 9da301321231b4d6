#include "sdk/backend/host_storage.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

void RaiseTo(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

class HostStorage : public Storage {
 public:
  HostStorage(void* data, size_t size, std::shared_ptr<HostMemoryCounter> counter)
      : data_(data), size_(size), counter_(std::move(counter)) {}
  ~HostStorage() override {
    std::free(data_);
    if (counter_ != nullptr) counter_->Remove(static_cast<int64_t>(size_));
  }
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_;
  size_t size_;
  std::shared_ptr<HostMemoryCounter> counter_;
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
  if (whole_ != nullptr) {
    if (absl::Status status = whole_->Add(bytes); !status.ok()) {
      in_use_.fetch_sub(bytes, std::memory_order_relaxed);
      return status;
    }
  }
  allocations_.fetch_add(1, std::memory_order_relaxed);
  RaiseTo(largest_, bytes);
  RaiseTo(peak_, before + bytes);
  return absl::OkStatus();
}

void HostMemoryCounter::Remove(int64_t bytes) {
  in_use_.fetch_sub(bytes, std::memory_order_relaxed);
  if (whole_ != nullptr) whole_->Remove(bytes);
}

MemoryStats HostMemoryCounter::Stats() const {
  MemoryStats stats;
  stats.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  stats.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  stats.num_allocs = allocations_.load(std::memory_order_relaxed);
  stats.largest_alloc_size = largest_.load(std::memory_order_relaxed);
  if (limit_ > 0) {
    stats.bytes_limit = limit_;
  } else if (whole_ != nullptr && whole_->limit_ > 0) {
    stats.bytes_limit = whole_->limit_;
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
  if (counter != nullptr) {
    if (absl::Status status = counter->Add(static_cast<int64_t>(bytes)); !status.ok()) return status;
  }
  // aligned_alloc wants a multiple of the alignment; no bytes at all still get an address.
  const size_t rounded = (bytes / kHostStorageAlignment + 1) * kHostStorageAlignment;
  void* data = std::aligned_alloc(kHostStorageAlignment, rounded);
  if (data == nullptr) {
    if (counter != nullptr) counter->Remove(static_cast<int64_t>(bytes));
    return absl::ResourceExhaustedError(absl::StrCat("allocate: the system has no memory for ", bytes, " bytes"));
  }
  return std::make_shared<HostStorage>(data, bytes, std::move(counter));
}

}  // namespace backplane
