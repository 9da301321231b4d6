// What is known of each handle: whether it lives, who made it and who destroyed it.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "sdk/layers/spin_lock.h"
#include "sdk/layers/validate/arguments.h"

namespace backplane::layers {

class Program;

struct Handle {
  bool alive = true;
  bool owned = false;                     // by the host, which has to destroy it
  bool deleted = false;                   // by PJRT_Buffer_Delete or PJRT_LoadedExecutable_Delete
  bool told = false;                      // a finding says that it outlived its client
  bool doubtful = false;                  // a buffer whose contents an execution may have taken: the plugin knows
  uint32_t owners = 1;                    // times it was given out: a plugin may count references
  uint32_t born = 0, died = 0, used = 0;  // stacks; `used`: of the last execution it was an argument of
  Fn born_fn = Fn::kCount, died_fn = Fn::kCount;
  const void* client = nullptr;  // null when it has none
  Program* program = nullptr;    // of a loaded executable
};

// Thread-safe. A handle is a type and an address: two objects of different types may share one.
class Handles {
 public:
  // The plugin gave the host an object. A destroyed one at the same address is forgotten.
  void Give(Object type, const void* handle, Fn fn, uint32_t stack, const void* client, Program* program = nullptr);
  // The plugin showed one that it keeps; it belongs to the client that showed it last.
  void Lend(Object type, const void* handle, Fn fn, const void* client);

  std::optional<Handle> Find(Object type, const void* handle) const;
  // What most calls want to know of it.
  struct State {
    bool fine = false;  // alive, and not deleted
    bool doubtful = false;
    uint32_t used = 0;
    const void* client = nullptr;
    Program* program = nullptr;
  };
  State StateOf(Object type, const void* handle) const;
  // Starts to bring what is known of it near, for many that will be asked of together.
  void Prefetch(Object type, const void* handle) const;

  enum class Destroyed { kFine, kUnknown, kTwice, kNotOwned };
  // The host is about to destroy it. Before the plugin is called, because afterwards the address may be another
  // object's already. `was` gets what was known.
  Destroyed BeginDestroy(Object type, const void* handle, Fn fn, uint32_t stack, Handle* was);
  // The plugin refused: as before, unless the address has been given out since.
  void UndoDestroy(Object type, const void* handle, const Handle& was);

  void MarkDeleted(Object type, const void* handle);
  // What StateOf gives; and it is now an argument of an execution, which may take its contents.
  State Use(Object type, const void* handle, uint32_t stack, bool may_take);
  void SetDoubtful(Object type, const void* handle, bool doubtful);
  void MarkTold(Object type, const void* handle);
  // What the client lent goes with it.
  void EndClient(const void* client, Fn fn, uint32_t stack);

  // Living objects that the host owns; in no order.
  void ForEachOwned(const std::function<void(Object, const void*, const Handle&)>& visit) const;

 private:
  // Between two steps of a host nothing of this is in the caches, and a step asks of hundreds of handles: each costs
  // one line of its shard, of which there are few, and one of its own.
  struct alignas(64) Slot {
    const void* address = nullptr;  // null: nothing here
    Handle handle;
    uint32_t died_at = 0;  // Shard::deaths
    Object type = Object::None;
  };
  static_assert(sizeof(Slot) == 64);
  static constexpr size_t kShards = 16;
  // In one shard. Older ones are forgotten when their room is needed: a host that uses a destroyed object does so soon.
  static constexpr uint32_t kMostDead = 1024;
  // Open addressing, at most half full. Nothing is ever taken out, but left behind when the shard moves to other
  // memory.
  struct alignas(64) Shard {
    mutable SpinLock mutex;
    std::atomic<Slot*> slots{nullptr};  // atomic for Prefetch only, as is mask
    std::atomic<uint32_t> mask{0};      // their number less one
    uint32_t filled = 0;
    uint32_t deaths = 0;
    std::unique_ptr<Slot[]> memory;
  };
  static_assert(sizeof(Shard) == 64);

  static uint64_t HashOf(Object type, const void* handle) {
    return (reinterpret_cast<uint64_t>(handle) ^ static_cast<uint64_t>(type) << 56) * 0x9e3779b97f4a7c15;
  }
  Shard& ShardOf(uint64_t hash) { return shards_[hash >> 60]; }
  const Shard& ShardOf(uint64_t hash) const { return shards_[hash >> 60]; }
  static uint32_t FirstOf(uint64_t hash, uint32_t mask) { return static_cast<uint32_t>(hash >> 28) & mask; }
  // Under the shard's lock. Null when it is not there.
  static Slot* Look(const Shard& shard, uint64_t hash, Object type, const void* handle);
  static Slot& Enter(Shard& shard, uint64_t hash, Object type, const void* handle);
  static void Move(Shard& shard);
  static void Die(Shard& shard, Slot& slot, Fn fn, uint32_t stack);
  static State StateIn(const Slot& slot);
  Shard shards_[kShards];
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_
