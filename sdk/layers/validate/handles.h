// What is known of each handle: whether it lives, who made it and who destroyed it.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "sdk/layers/validate/arguments.h"

namespace backplane::layers {

struct Handle {
  bool alive = true;
  bool owned = false;                     // by the host, which has to destroy it
  bool deleted = false;                   // by PJRT_Buffer_Delete or PJRT_LoadedExecutable_Delete
  bool told = false;                      // a finding says that it outlived its client
  uint32_t owners = 1;                    // times it was given out: a plugin may count references
  uint32_t born = 0, died = 0, used = 0;  // stacks; `used`: of the last execution it was an argument of
  Fn born_fn = Fn::kCount, died_fn = Fn::kCount;
  const void* client = nullptr;  // null when it has none
  size_t outputs = 0;            // of a loaded executable, on each device
};

// Thread-safe. A handle is a type and an address: two objects of different types may share one.
class Handles {
 public:
  // The plugin gave the host an object. A destroyed one at the same address is forgotten.
  void Give(Object type, const void* handle, Fn fn, uint32_t stack, const void* client, size_t outputs = 0);
  // The plugin showed one that it keeps.
  void Lend(Object type, const void* handle, Fn fn, const void* client);

  std::optional<Handle> Find(Object type, const void* handle) const;

  enum class Destroyed { kFine, kUnknown, kTwice, kNotOwned };
  // The host is about to destroy it. Before the plugin is called, because afterwards the address may be another
  // object's already. `was` gets what was known.
  Destroyed BeginDestroy(Object type, const void* handle, Fn fn, uint32_t stack, Handle* was);
  // The plugin refused: as before, unless the address has been given out since.
  void UndoDestroy(Object type, const void* handle, const Handle& was);

  void MarkDeleted(Object type, const void* handle);
  // What Find gives, and that it is now an argument of an execution.
  std::optional<Handle> Use(Object type, const void* handle, uint32_t stack);
  void MarkTold(Object type, const void* handle);
  // What the client lent goes with it.
  void EndClient(const void* client, Fn fn, uint32_t stack);

  // Living objects that the host owns; in no order.
  void ForEachOwned(const std::function<void(Object, const void*, const Handle&)>& visit) const;

 private:
  using Key = std::pair<uint8_t, const void*>;
  static constexpr size_t kShards = 64;
  // In one shard; the oldest are forgotten. 16,384 in all: a host that uses a destroyed object does so soon, and
  // more would push the host's own data out of the caches.
  static constexpr size_t kMostDead = 256;
  struct Shard {
    mutable std::mutex mutex;
    absl::flat_hash_map<Key, Handle> handles;
    std::deque<Key> dead;
  };
  Shard& ShardOf(const void* handle) { return shards_[(reinterpret_cast<uintptr_t>(handle) >> 5) % kShards]; }
  const Shard& ShardOf(const void* handle) const {
    return shards_[(reinterpret_cast<uintptr_t>(handle) >> 5) % kShards];
  }
  static void Bury(Shard& shard, const Key& key);
  Shard shards_[kShards];
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_
