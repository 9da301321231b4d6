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
      : data_(data), size_(size), counter_(std::move(counter)) {
    if (counter_ != nullptr) counter_->Add(static_cast<int64_t>(size_));
  }
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

void HostMemoryCounter::Add(int64_t bytes) {
  allocations_.fetch_add(1, std::memory_order_relaxed);
  RaiseTo(largest_, bytes);
  RaiseTo(peak_, in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

MemoryStats HostMemoryCounter::Stats() const {
  MemoryStats stats;
  stats.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  stats.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  stats.num_allocs = allocations_.load(std::memory_order_relaxed);
  stats.largest_alloc_size = largest_.load(std::memory_order_relaxed);
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
  // aligned_alloc wants a multiple of the alignment; no bytes at all still get an address.
  const size_t rounded = (bytes / kHostStorageAlignment + 1) * kHostStorageAlignment;
  void* data = std::aligned_alloc(kHostStorageAlignment, rounded);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("allocate: no room for ", bytes, " bytes of host memory"));
  }
  return std::make_shared<HostStorage>(data, bytes, std::move(counter));
}

}  // namespace backplane
