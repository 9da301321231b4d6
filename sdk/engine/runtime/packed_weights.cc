#include "sdk/engine/runtime/packed_weights.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sdk/backend/exceptions.h"

namespace backplane::engine {
namespace {

constexpr int64_t kReadsBeforePacking = 2;
constexpr size_t kMostForms = 16;              // of one storage, for as many kernels
constexpr uint64_t kUnusedFor = 1 << 16;       // uses of other forms after which one makes room for new ones
constexpr int64_t kReadsAfterFailure = -1000;  // before another attempt, when there was no memory

}  // namespace

PackedWeights::PackedWeights(std::shared_ptr<MemoryBudget> budget, int64_t limit_bytes)
    : budget_(std::move(budget)), limit_(limit_bytes) {}

PackedWeights::~PackedWeights() = default;

PackedWeights::Block PackedWeights::Find(KeptForms& weights, uint64_t key, int64_t bytes,
                                         absl::FunctionRef<absl::Status(void*)> pack) {
  uint64_t generation;
  Blocks dropped;
  {
    MutexLock lock(mutex_);
    if (weights.host_accesses > 0 || bytes > limit_) return nullptr;
    auto form = std::find_if(weights.forms.begin(), weights.forms.end(), [&](const auto& f) { return f.key == key; });
    if (form == weights.forms.end()) {
      if (weights.forms.size() == kMostForms) {
        auto oldest = std::min_element(weights.forms.begin(), weights.forms.end(),
                                       [](const auto& a, const auto& b) { return a.last_use < b.last_use; });
        if (oldest->is_being_made) return nullptr;
        dropped.push_back(oldest->block);
        if (oldest->block != nullptr) total_ -= oldest->bytes;
        weights.forms.erase(oldest);
      }
      if (!weights.registered.load(std::memory_order_relaxed)) {
        all_.insert(&weights);
        weights.registered.store(true, std::memory_order_relaxed);
      }
      form = weights.forms.insert(weights.forms.end(), KeptForms::Form());
      form->key = key;
    }
    form->last_use = ++uses_;
    if (form->block != nullptr) return form->block;
    if (form->is_being_made || ++form->reads < kReadsBeforePacking) return nullptr;
    if (total_ > limit_ - bytes) {
      const uint64_t before = uses_ > kUnusedFor ? uses_ - kUnusedFor : 0;
      DropOldest(total_ - (limit_ - bytes), before, dropped);
      if (total_ > limit_ - bytes) return nullptr;
    }
    form->is_being_made = true;
    generation = weights.generation;
  }
  dropped.clear();
  Block block;
  const absl::Status packed = CatchExceptions([&]() -> absl::Status {
    void* const memory = budget_->TryAllocate(static_cast<size_t>(bytes));
    if (memory == nullptr) return absl::Status(absl::StatusCode::kResourceExhausted, "");
    block = Block(static_cast<const std::byte*>(memory),
                  [budget = budget_](const std::byte* b) { budget->Free(const_cast<std::byte*>(b)); });
    return pack(memory);
  });
  if (!packed.ok()) block = nullptr;
  MutexLock lock(mutex_);
  if (weights.generation != generation) return nullptr;  // the form has been dropped, so it may be of older contents
  auto form = std::find_if(weights.forms.begin(), weights.forms.end(), [&](const auto& f) { return f.key == key; });
  form->is_being_made = false;
  if (block == nullptr) {
    form->reads = kReadsAfterFailure;
    return nullptr;
  }
  form->block = block;
  form->bytes = bytes;
  total_ += bytes;
  return block;
}

// Allocates nothing, because storages are freed in destructors.
void PackedWeights::DropForms(KeptForms& weights, std::vector<KeptForms::Form>& dropped) {
  for (const KeptForms::Form& f : weights.forms) {
    if (f.block != nullptr) total_ -= f.bytes;
  }
  dropped.swap(weights.forms);
  ++weights.generation;
  all_.erase(&weights);
  weights.registered.store(false, std::memory_order_release);  // the last access, should the storage be freed now
}

// Forms that were not used after `used_before`.
int64_t PackedWeights::DropOldest(int64_t bytes, uint64_t used_before, Blocks& dropped) {
  std::vector<KeptForms::Form*> made;
  for (KeptForms* weights : all_) {
    for (KeptForms::Form& f : weights->forms) {
      if (f.block != nullptr && f.last_use <= used_before) made.push_back(&f);
    }
  }
  std::sort(made.begin(), made.end(), [](const auto* a, const auto* b) { return a->last_use < b->last_use; });
  dropped.reserve(dropped.size() + made.size());
  int64_t sum = 0;
  for (KeptForms::Form* f : made) {
    if (sum >= bytes) break;
    sum += f->bytes;
    total_ -= f->bytes;
    f->reads = 0;
    dropped.push_back(std::move(f->block));
  }
  return sum;
}

void PackedWeights::Drop(KeptForms& weights) {
  if (!weights.registered.load(std::memory_order_acquire)) return;
  std::vector<KeptForms::Form> dropped;
  MutexLock lock(mutex_);
  DropForms(weights, dropped);
}

void PackedWeights::BeginHostAccess(KeptForms& weights) {
  std::vector<KeptForms::Form> dropped;
  MutexLock lock(mutex_);
  ++weights.host_accesses;
  DropForms(weights, dropped);
}

void PackedWeights::EndHostAccess(KeptForms& weights) {
  MutexLock lock(mutex_);
  --weights.host_accesses;
}

int64_t PackedWeights::Reclaim(int64_t bytes) {
  Blocks dropped;
  MutexLock lock(mutex_);
  return DropOldest(bytes, std::numeric_limits<uint64_t>::max(), dropped);
}

int64_t PackedWeights::bytes() const {
  MutexLock lock(mutex_);
  return total_;
}

}  // namespace backplane::engine
