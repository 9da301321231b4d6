#include "plugins/hip/backend/memory_pool.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace backplane::hip {
namespace {

uintptr_t ComputeAddress(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* PointerTo(uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

MemoryPool::MemoryPool(Source source, Options options) : source_(std::move(source)), options_(std::move(options)) {}

MemoryPool::~MemoryPool() {
  Slabs slabs;
  {
    MutexLock lock(mu_);
    slabs = std::move(slabs_);
  }
  for (const auto& [address, slab] : slabs) source_.free(PointerTo(address));
}

int MemoryPool::SizeClass(size_t bytes) {
  int size_class = 0;
  while (CellBytes(size_class) < bytes) ++size_class;
  return size_class;
}

size_t MemoryPool::RoundedBytes(size_t bytes) {
  if (bytes <= kMaxSmall) return CellBytes(SizeClass(bytes));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

absl::StatusOr<void*> MemoryPool::Allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return MakeExhaustedError(bytes, absl::OkStatus());
  const size_t rounded = options_.slab_bytes == 0 ? std::max<size_t>(bytes, 1) : RoundedBytes(bytes);
  if (options_.slab_bytes != 0) {
    MutexLock lock(mu_);
    if (void* address = Take(rounded); address != nullptr) return address;
  }
  MutexLock growing(grow_mu_);
  if (options_.slab_bytes != 0) {  // another thread may have taken a slab meanwhile
    MutexLock lock(mu_);
    if (void* address = Take(rounded); address != nullptr) return address;
  }
  absl::StatusOr<void*> address = AllocateSlabFor(rounded);
  if (absl::IsResourceExhausted(address.status()) && ReleaseEmptySlabs() > 0) address = AllocateSlabFor(rounded);
  return address.ok() ? address : MakeExhaustedError(bytes, address.status());
}

absl::StatusOr<void*> MemoryPool::AllocateSlabFor(size_t bytes) {
  if (options_.slab_bytes != 0) {
    size_t usual = options_.slab_bytes;
    {
      MutexLock lock(mu_);
      usual = std::max(usual, std::min(static_cast<size_t>(taken_) / 8, kMaxSlab) / kRunBytes * kRunBytes);
    }
    if (bytes <= usual / 4) {
      absl::StatusOr<void*> address = AddSlab(usual, bytes);
      if (address.ok()) return address;
    }
  }
  return AddSlab(bytes, bytes);
}

absl::StatusOr<void*> MemoryPool::AddSlab(size_t slab_bytes, size_t bytes) {
  const int64_t added = static_cast<int64_t>(slab_bytes);
  // The entry is made first: nothing may fail once the source has given the slab.
  Slabs entry;
  entry.emplace(0, Slab{slab_bytes, 0});
  Slabs::node_type node = entry.extract(entry.begin());
  {
    MutexLock lock(mu_);
    if (options_.limit_bytes > 0 && added > options_.limit_bytes - taken_)
      return absl::ResourceExhaustedError("the limit is reached");
    ReserveEntry();
    taken_ += added;
  }
  const absl::StatusOr<void*> slab = source_.allocate(slab_bytes);
  MutexLock lock(mu_);
  if (!slab.ok()) {
    taken_ -= added;
    --needed_entries_;
    return slab;
  }
  node.key() = ComputeAddress(*slab);
  slabs_.insert(std::move(node));
  AddFree(ComputeAddress(*slab), slab_bytes);
  return Take(bytes);
}

absl::Status MemoryPool::MakeExhaustedError(size_t bytes, const absl::Status& why) const {
  if (!why.ok() && !absl::IsResourceExhausted(why))
    return absl::Status(why.code(), absl::StrCat(options_.name, ": ", why.message()));
  const MemoryStats stats = Stats();
  std::string text = absl::StrCat(options_.name, ": no memory for ", bytes, " bytes: ", stats.bytes_in_use,
                                  " are in use of ", *stats.pool_bytes, " that are taken");
  if (options_.limit_bytes > 0) absl::StrAppend(&text, ", the limit is ", options_.limit_bytes);
  absl::StrAppend(&text, ", the largest free block has ", *stats.largest_free_block_bytes);
  if (!why.ok()) absl::StrAppend(&text, ": ", why.message());
  return absl::ResourceExhaustedError(text);
}

void MemoryPool::Free(void* pointer, size_t bytes) {
  const uintptr_t address = ComputeAddress(pointer);
  if (options_.slab_bytes == 0) {
    bytes = std::max<size_t>(bytes, 1);
    {
      MutexLock lock(mu_);
      slabs_.erase(address);
      needed_entries_ -= 2;  // of the slab and of the block
      in_use_ -= static_cast<int64_t>(bytes);
    }
    source_.free(pointer);
    MutexLock lock(mu_);
    taken_ -= static_cast<int64_t>(bytes);  // only now may the source give the memory out again
    return;
  }
  const size_t rounded = RoundedBytes(bytes);
  MutexLock lock(mu_);
  in_use_ -= static_cast<int64_t>(rounded);
  if (rounded > kMaxSmall || !FreeCell(address)) FreeBlock(address, rounded);
}

bool MemoryPool::Contains(const void* pointer, size_t bytes) const {
  const uintptr_t address = ComputeAddress(pointer);
  MutexLock lock(mu_);
  const auto after = slabs_.upper_bound(address);
  if (after == slabs_.begin()) return false;
  const auto& [begin, slab] = *std::prev(after);
  return address - begin <= slab.bytes && bytes <= slab.bytes - (address - begin);
}

size_t MemoryPool::ReleaseEmptySlabs() {
  Slabs empty;
  size_t bytes = 0;
  {
    MutexLock lock(mu_);
    for (auto slab = slabs_.begin(); slab != slabs_.end();) {
      const auto at = slab++;
      if (at->second.used > 0) continue;
      RemoveFree(free_.find(at->first));
      bytes += at->second.bytes;
      empty.insert(slabs_.extract(at));
      --needed_entries_;
    }
  }
  for (const auto& [address, slab] : empty) source_.free(PointerTo(address));
  MutexLock lock(mu_);
  taken_ -= static_cast<int64_t>(bytes);
  return bytes;
}

MemoryStats MemoryPool::Stats() const {
  MutexLock lock(mu_);
  MemoryStats stats;
  stats.bytes_in_use = in_use_;
  stats.peak_bytes_in_use = peak_;
  stats.num_allocs = allocations_;
  stats.largest_alloc_size = largest_;
  if (options_.limit_bytes > 0) stats.bytes_limit = options_.limit_bytes;
  stats.largest_free_block_bytes =
      free_by_size_.empty() ? 0 : static_cast<int64_t>(std::prev(free_by_size_.end())->first);
  stats.pool_bytes = taken_;
  return stats;
}

void MemoryPool::ClearStats() {
  MutexLock lock(mu_);
  peak_ = in_use_;
  allocations_ = largest_ = 0;
}

void MemoryPool::Count(size_t rounded) {
  const int64_t bytes = static_cast<int64_t>(rounded);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  largest_ = std::max(largest_, bytes);
  ++allocations_;
}

void* MemoryPool::Take(size_t rounded) {
  void* address = options_.slab_bytes != 0 && rounded <= kMaxSmall ? TakeCell(SizeClass(rounded)) : nullptr;
  if (address == nullptr) address = PointerTo(TakeBestFit(rounded));
  if (address != nullptr) Count(rounded);
  return address;
}

void* MemoryPool::TakeCell(int size_class) {
  Runs& with_room = runs_with_room_[static_cast<size_t>(size_class)];
  if (with_room.empty()) {
    std::map<uintptr_t, Run> run;  // made before the block is taken
    run.emplace(0, Run{size_class, {}, 0, {}});
    auto run_node = run.extract(run.begin());
    Runs room = {0};
    auto room_node = room.extract(room.begin());
    const uintptr_t block = TakeBestFit(kRunBytes);
    if (block == 0) return nullptr;
    run_node.key() = block;
    runs_.insert(std::move(run_node));
    room_node.value() = block;
    with_room.insert(std::move(room_node));
  }
  const uintptr_t begin = *with_room.begin();
  Run& run = runs_.at(begin);
  const size_t cells = kRunBytes / CellBytes(size_class);
  size_t cell = 0;
  while (run.taken[cell]) ++cell;
  run.taken[cell] = true;
  if (++run.count == cells) run.full = with_room.extract(begin);
  return PointerTo(begin + cell * CellBytes(size_class));
}

bool MemoryPool::FreeCell(uintptr_t address) {
  const auto after = runs_.upper_bound(address);
  if (after == runs_.begin()) return false;
  const auto at = std::prev(after);
  const uintptr_t begin = at->first;
  if (address - begin >= kRunBytes) return false;
  Run& run = at->second;
  run.taken[(address - begin) / CellBytes(run.size_class)] = false;
  Runs& with_room = runs_with_room_[static_cast<size_t>(run.size_class)];
  if (run.full) with_room.insert(std::move(run.full));
  if (--run.count > 0) return true;
  with_room.erase(begin);
  runs_.erase(at);
  FreeBlock(begin, kRunBytes);
  return true;
}

uintptr_t MemoryPool::TakeBestFit(size_t bytes) {
  const auto best = free_by_size_.lower_bound({bytes, 0});
  if (best == free_by_size_.end()) return 0;
  ReserveEntry();
  const auto [block_bytes, address] = *best;
  RemoveFree(free_.find(address));
  if (block_bytes > bytes) AddFree(address + bytes, block_bytes - bytes);
  FindSlab(address)->second.used += bytes;
  return address;
}

void MemoryPool::FreeBlock(uintptr_t address, size_t bytes) {
  const auto slab = FindSlab(address);
  slab->second.used -= bytes;
  --needed_entries_;
  uintptr_t begin = address, end = address + bytes;
  const auto next = free_.lower_bound(end);
  // Blocks of neighbouring slabs must not merge, because slabs are released one by one.
  if (next != free_.end() && next->first == end && end < slab->first + slab->second.bytes) {
    end += next->second;
    RemoveFree(next);
  }
  const auto after = free_.lower_bound(begin);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin && begin > slab->first) {
      begin = before->first;
      RemoveFree(before);
    }
  }
  AddFree(begin, end - begin);
}

MemoryPool::Slabs::iterator MemoryPool::FindSlab(uintptr_t address) { return std::prev(slabs_.upper_bound(address)); }

void MemoryPool::ReserveEntry() {
  if (entries_ == needed_entries_) {
    if (entries_ == spares_.capacity()) spares_.reserve(std::max<size_t>(16, 2 * entries_));
    FreeBlocks blocks;
    FreeBySize by_size;
    blocks.emplace(0, 0);
    by_size.emplace(0, 0);
    spares_.push_back({blocks.extract(blocks.begin()), by_size.extract(by_size.begin())});
    ++entries_;
  }
  ++needed_entries_;
}

void MemoryPool::AddFree(uintptr_t address, size_t bytes) {
  FreeEntry entry = std::move(spares_.back());
  spares_.pop_back();
  entry.block.key() = address;
  entry.block.mapped() = bytes;
  entry.by_size.value() = {bytes, address};
  free_.insert(std::move(entry.block));
  free_by_size_.insert(std::move(entry.by_size));
}

void MemoryPool::RemoveFree(FreeBlocks::iterator block) {
  FreeBySize::node_type by_size = free_by_size_.extract({block->second, block->first});
  spares_.push_back({free_.extract(block), std::move(by_size)});
}

}  // namespace backplane::hip
