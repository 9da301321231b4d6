#include "plugins/hip/backend/pinned_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"

namespace backplane::hip {
namespace {

// Staging memory is never released before the client's end, because its release would wait for the devices.
constexpr size_t kStagingSlab = 1 << 20;

MemoryPool::Source PinnedSource(const HipApi& api) {
  return {[&api](size_t bytes) -> absl::StatusOr<void*> {
            void* address = nullptr;
            RETURN_IF_ERROR(ToStatus(api.hipHostMalloc(&address, bytes, kHostMallocPortable),
                                     absl::StrCat("allocating ", bytes, " bytes of pinned memory")));
            return address;
          },
          [&api](void* address) { (void)api.hipHostFree(address); }};
}

}  // namespace

class PinnedMemory::Block : public Storage {
 public:
  Block(std::shared_ptr<PinnedMemory> memory, MemoryPool* pool, size_t size)
      : memory_(std::move(memory)), pool_(pool), size_(size) {}
  ~Block() override {
    if (address_ != nullptr) pool_->Free(address_, size_);
    if (pool_ == &memory_->staging_) memory_->ReleaseStaging(size_);
  }
  absl::Status Allocate() {
    ASSIGN_OR_RETURN(address_, pool_->Allocate(size_));
    return absl::OkStatus();
  }
  void* data() const override { return address_; }
  size_t size() const override { return size_; }

 private:
  const std::shared_ptr<PinnedMemory> memory_;
  MemoryPool* const pool_;
  void* address_ = nullptr;
  const size_t size_;
};

PinnedMemory::PinnedMemory(HipApi api, size_t slab_bytes)
    : api_(std::move(api)),
      arrays_(PinnedSource(api_), {"pinned memory of the host", slab_bytes, 0}),
      staging_(PinnedSource(api_), {"staging memory of the host", kStagingSlab, 0}) {}

absl::StatusOr<std::shared_ptr<Storage>> PinnedMemory::Allocate(size_t bytes) {
  auto block = std::make_shared<Block>(shared_from_this(), &arrays_, bytes);
  RETURN_IF_ERROR(block->Allocate());
  return block;
}

absl::StatusOr<std::shared_ptr<Storage>> PinnedMemory::TryStage(size_t bytes) {
  {
    MutexLock lock(mu_);
    if (bytes > kMaxStaging - staged_bytes_) return std::shared_ptr<Storage>();
    staged_bytes_ += bytes;
  }
  absl::StatusOr<std::shared_ptr<Block>> made = CatchExceptions([&]() -> absl::StatusOr<std::shared_ptr<Block>> {
    return std::make_shared<Block>(shared_from_this(), &staging_, bytes);
  });
  if (!made.ok()) {
    ReleaseStaging(bytes);  // what a block does when it is dropped
    return made.status();
  }
  std::shared_ptr<Block> block = *std::move(made);
  RETURN_IF_ERROR(block->Allocate());
  return block;
}

absl::StatusOr<std::shared_ptr<Storage>> PinnedMemory::Stage(size_t bytes) {
  while (true) {
    ASSIGN_OR_RETURN(std::shared_ptr<Storage> block, TryStage(bytes));
    if (block != nullptr) return block;
    MutexLock lock(mu_);
    while (bytes > kMaxStaging - staged_bytes_) released_.Wait(mu_);
  }
}

void PinnedMemory::ReleaseStaging(size_t bytes) {
  MutexLock lock(mu_);
  staged_bytes_ -= bytes;
  released_.NotifyAll();
}

absl::Status PinnedMemory::Register(void* data, size_t bytes) {
  RETURN_IF_ERROR(ToStatus(api_.hipHostRegister(data, bytes, kHostRegisterPortable), "registering memory of the host"));
  MutexLock lock(mu_);
  registered_[reinterpret_cast<uintptr_t>(data)] = bytes;
  return absl::OkStatus();
}

absl::Status PinnedMemory::Unregister(void* data) {
  {
    MutexLock lock(mu_);
    if (registered_.erase(reinterpret_cast<uintptr_t>(data)) == 0)
      return absl::InvalidArgumentError("unregister host memory: this address was never registered");
  }
  return ToStatus(api_.hipHostUnregister(data), "unregistering memory of the host");
}

bool PinnedMemory::IsPinned(const void* pointer, size_t bytes) const {
  if (arrays_.Contains(pointer, bytes)) return true;
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  MutexLock lock(mu_);
  const auto after = registered_.upper_bound(address);
  if (after == registered_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin <= size && bytes <= size - (address - begin);
}

}  // namespace backplane::hip
