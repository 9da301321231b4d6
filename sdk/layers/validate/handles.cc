#include "sdk/layers/validate/handles.h"

#include <algorithm>

namespace backplane::layers {

Handles::Slot* Handles::FindSlot(const Shard& shard, uint64_t hash, Object type, const void* handle) {
  Slot* slots = shard.slots.load(std::memory_order_relaxed);
  if (slots == nullptr) return nullptr;
  const uint32_t mask = shard.mask.load(std::memory_order_relaxed);
  for (uint32_t i = GetFirstIndex(hash, mask); slots[i].address != nullptr; i = (i + 1) & mask) {
    if (slots[i].address == handle && slots[i].type == type) return &slots[i];
  }
  return nullptr;
}

// Moves the entries to memory of the right size, without objects that were destroyed long ago.
void Handles::Move(Shard& shard) {
  const std::unique_ptr<Slot[]> old = std::move(shard.memory);
  const size_t old_size = old == nullptr ? 0 : shard.mask.load(std::memory_order_relaxed) + size_t{1};
  auto keep = [&](const Slot& s) {
    return s.address != nullptr && (s.handle.alive || shard.destructions - s.destruction_number <= kMaxDestroyed);
  };
  const auto kept = static_cast<size_t>(std::count_if(old.get(), old.get() + old_size, keep));
  size_t size = 64;
  while (size < 3 * (kept + 1)) size *= 2;
  const auto mask = static_cast<uint32_t>(size - 1);
  shard.memory.reset(new Slot[size]);
  for (size_t i = 0; i < old_size; ++i) {
    if (!keep(old[i])) continue;
    uint32_t at = GetFirstIndex(ComputeHash(old[i].type, old[i].address), mask);
    while (shard.memory[at].address != nullptr) at = (at + 1) & mask;
    shard.memory[at] = old[i];
  }
  shard.filled = static_cast<uint32_t>(kept);
  shard.slots.store(shard.memory.get(), std::memory_order_relaxed);
  shard.mask.store(mask, std::memory_order_relaxed);
}

Handles::Slot& Handles::FindOrInsertSlot(Shard& shard, uint64_t hash, Object type, const void* handle) {
  if (Slot* found = FindSlot(shard, hash, type, handle)) return *found;
  if (shard.memory == nullptr || 2 * (shard.filled + size_t{1}) > shard.mask.load(std::memory_order_relaxed)) {
    Move(shard);
  }
  const uint32_t mask = shard.mask.load(std::memory_order_relaxed);
  uint32_t at = GetFirstIndex(hash, mask);
  while (shard.memory[at].address != nullptr) at = (at + 1) & mask;
  ++shard.filled;
  Slot& slot = shard.memory[at];
  slot.address = handle;
  slot.type = type;
  return slot;
}

void Handles::MarkDestroyed(Shard& shard, Slot& slot, Fn fn, uint32_t stack) {
  slot.handle.alive = false;
  slot.handle.destroyed = stack;
  slot.handle.destroyed_by = fn;
  slot.destruction_number = ++shard.destructions;
}

void Handles::AddOwned(Object type, const void* handle, Fn fn, uint32_t stack, const void* client, Program* program) {
  if (handle == nullptr) return;
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  Handle& h = FindOrInsertSlot(shard, hash, type, handle).handle;
  if (h.created_by != Fn::kCount && h.alive && h.owned) {
    ++h.owners;
    return;
  }
  h = Handle{};
  h.owned = true;
  h.created = stack;
  h.created_by = fn;
  h.client = client;
  h.program = program;
}

void Handles::AddBorrowed(Object type, const void* handle, Fn fn, const void* client) {
  if (handle == nullptr) return;
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  Handle& h = FindOrInsertSlot(shard, hash, type, handle).handle;
  if (h.created_by != Fn::kCount && h.alive) {
    // The object that lent it before may have ended unseen, and another client's may live at its address now.
    if (!h.owned && h.client != client) h.client = client;
    return;
  }
  h = Handle{};
  h.created_by = fn;
  h.client = client;
}

std::optional<Handle> Handles::Find(Object type, const void* handle) const {
  const uint64_t hash = ComputeHash(type, handle);
  const Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  const Slot* slot = FindSlot(shard, hash, type, handle);
  if (slot == nullptr) return std::nullopt;
  return slot->handle;
}

Handles::State Handles::GetState(Object type, const void* handle) const {
  const uint64_t hash = ComputeHash(type, handle);
  const Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  const Slot* slot = FindSlot(shard, hash, type, handle);
  return slot == nullptr ? State{} : StateIn(*slot);
}

Handles::State Handles::StateIn(const Slot& slot) {
  const Handle& h = slot.handle;
  return {h.alive && !h.deleted, h.uncertain, h.used, h.client, h.program};
}

Handles::State Handles::Use(Object type, const void* handle, uint32_t stack, bool may_consume) {
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  Slot* slot = FindSlot(shard, hash, type, handle);
  if (slot == nullptr) return {};
  const State state = StateIn(*slot);
  // Not written if unchanged, so that the cache line stays clean.
  if (state.used != stack) slot->handle.used = stack;
  if (may_consume && !state.uncertain) slot->handle.uncertain = true;
  return state;
}

void Handles::SetUncertain(Object type, const void* handle, bool uncertain) {
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  if (Slot* slot = FindSlot(shard, hash, type, handle)) slot->handle.uncertain = uncertain;
}

void Handles::Prefetch(Object type, const void* handle) const {
  const uint64_t hash = ComputeHash(type, handle);
  const Shard& shard = GetShard(hash);
  const Slot* slots = shard.slots.load(std::memory_order_relaxed);
  // `slots` and `mask` may belong to different tables for a moment; then a useless line is prefetched.
  __builtin_prefetch(slots + GetFirstIndex(hash, shard.mask.load(std::memory_order_relaxed)), 1);
}

Handles::Destroyed Handles::BeginDestroy(Object type, const void* handle, Fn fn, uint32_t stack, Handle* was) {
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  Slot* slot = FindSlot(shard, hash, type, handle);
  if (slot == nullptr) return Destroyed::kUnknown;
  Handle& h = slot->handle;
  *was = h;
  if (!h.alive) return Destroyed::kTwice;
  if (!h.owned) return Destroyed::kNotOwned;
  if (h.owners > 1) {
    --h.owners;
    return Destroyed::kOk;
  }
  MarkDestroyed(shard, *slot, fn, stack);
  return Destroyed::kOk;
}

void Handles::UndoDestroy(Object type, const void* handle, const Handle& was) {
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  Slot* slot = FindSlot(shard, hash, type, handle);
  if (slot == nullptr) return;
  if (slot->handle.alive) {
    if (slot->handle.created == was.created) ++slot->handle.owners;
    return;
  }
  slot->handle = was;
}

void Handles::MarkDeleted(Object type, const void* handle) {
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  if (Slot* slot = FindSlot(shard, hash, type, handle)) slot->handle.deleted = true;
}

void Handles::MarkReported(Object type, const void* handle) {
  const uint64_t hash = ComputeHash(type, handle);
  Shard& shard = GetShard(hash);
  std::lock_guard<SpinLock> lock(shard.mutex);
  if (Slot* slot = FindSlot(shard, hash, type, handle)) slot->handle.reported = true;
}

void Handles::EndClient(const void* client, Fn fn, uint32_t stack) {
  if (client == nullptr) return;
  for (Shard& shard : shards_) {
    std::lock_guard<SpinLock> lock(shard.mutex);
    for (size_t i = 0; shard.memory != nullptr && i <= shard.mask.load(std::memory_order_relaxed); ++i) {
      Slot& s = shard.memory[i];
      if (s.address != nullptr && s.handle.client == client && !s.handle.owned && s.handle.alive) {
        MarkDestroyed(shard, s, fn, stack);
      }
    }
  }
}

void Handles::ForEachOwned(const std::function<void(Object, const void*, const Handle&)>& visit) const {
  for (const Shard& shard : shards_) {
    std::lock_guard<SpinLock> lock(shard.mutex);
    for (size_t i = 0; shard.memory != nullptr && i <= shard.mask.load(std::memory_order_relaxed); ++i) {
      const Slot& s = shard.memory[i];
      if (s.address != nullptr && s.handle.alive && s.handle.owned) visit(s.type, s.address, s.handle);
    }
  }
}

}  // namespace backplane::layers
