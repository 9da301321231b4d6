#include "sdk/layers/validate/handles.h"

namespace backplane::layers {

void Handles::Bury(Shard& shard, const Key& key) {
  shard.dead.push_back(key);
  if (shard.dead.size() <= kMostDead) return;
  auto it = shard.handles.find(shard.dead.front());
  if (it != shard.handles.end() && !it->second.alive) shard.handles.erase(it);
  shard.dead.pop_front();
}

void Handles::Give(Object type, const void* handle, Fn fn, uint32_t stack, const void* client, size_t outputs) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  Handle& h = shard.handles[{static_cast<uint8_t>(type), handle}];
  if (h.born_fn != Fn::kCount && h.alive && h.owned) {
    ++h.owners;
    return;
  }
  h = Handle{};
  h.owned = true;
  h.born = stack;
  h.born_fn = fn;
  h.client = client;
  h.outputs = outputs;
}

void Handles::Lend(Object type, const void* handle, Fn fn, const void* client) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  Handle& h = shard.handles[{static_cast<uint8_t>(type), handle}];
  if (h.born_fn != Fn::kCount && h.alive) return;
  h = Handle{};
  h.born_fn = fn;
  h.client = client;
}

std::optional<Handle> Handles::Find(Object type, const void* handle) const {
  const Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.handles.find({static_cast<uint8_t>(type), handle});
  if (it == shard.handles.end()) return std::nullopt;
  return it->second;
}

Handles::Destroyed Handles::BeginDestroy(Object type, const void* handle, Fn fn, uint32_t stack, Handle* was) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  const Key key{static_cast<uint8_t>(type), handle};
  auto it = shard.handles.find(key);
  if (it == shard.handles.end()) return Destroyed::kUnknown;
  Handle& h = it->second;
  *was = h;
  if (!h.alive) return Destroyed::kTwice;
  if (!h.owned) return Destroyed::kNotOwned;
  if (h.owners > 1) {
    --h.owners;
    return Destroyed::kFine;
  }
  h.alive = false;
  h.died = stack;
  h.died_fn = fn;
  Bury(shard, key);
  return Destroyed::kFine;
}

void Handles::UndoDestroy(Object type, const void* handle, const Handle& was) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.handles.find({static_cast<uint8_t>(type), handle});
  if (it == shard.handles.end()) return;
  if (it->second.alive) {
    if (it->second.born == was.born) ++it->second.owners;
    return;
  }
  it->second = was;
}

void Handles::MarkDeleted(Object type, const void* handle) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.handles.find({static_cast<uint8_t>(type), handle});
  if (it != shard.handles.end()) it->second.deleted = true;
}

std::optional<Handle> Handles::Use(Object type, const void* handle, uint32_t stack) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.handles.find({static_cast<uint8_t>(type), handle});
  if (it == shard.handles.end()) return std::nullopt;
  std::optional<Handle> was = it->second;
  it->second.used = stack;
  return was;
}

void Handles::MarkTold(Object type, const void* handle) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.handles.find({static_cast<uint8_t>(type), handle});
  if (it != shard.handles.end()) it->second.told = true;
}

void Handles::EndClient(const void* client, Fn fn, uint32_t stack) {
  if (client == nullptr) return;
  for (Shard& shard : shards_) {
    std::lock_guard<std::mutex> lock(shard.mutex);
    for (auto& [key, h] : shard.handles) {
      if (h.client != client || h.owned || !h.alive) continue;
      h.alive = false;
      h.died = stack;
      h.died_fn = fn;
      shard.dead.push_back(key);
    }
  }
}

void Handles::ForEachOwned(const std::function<void(Object, const void*, const Handle&)>& visit) const {
  for (const Shard& shard : shards_) {
    std::lock_guard<std::mutex> lock(shard.mutex);
    for (const auto& [key, h] : shard.handles) {
      if (h.alive && h.owned) visit(static_cast<Object>(key.first), key.second, h);
    }
  }
}

}  // namespace backplane::layers
