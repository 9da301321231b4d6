// The state of each handle: whether it is alive, and which calls created and destroyed it.
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
  bool owned = false;                             // by the host, which must destroy it
  bool deleted = false;                           // by PJRT_Buffer_Delete or PJRT_LoadedExecutable_Delete
  bool reported = false;                          // reported as a finding: it outlived its client
  bool uncertain = false;                         // a buffer that an execution may have consumed; only the plugin knows
  uint32_t owners = 1;                            // how often it was returned, because a plugin may count references
  uint32_t created = 0, destroyed = 0, used = 0;  // stacks; `used`: that of the last execution with it as an argument
  Fn created_by = Fn::kCount, destroyed_by = Fn::kCount;
  const void* client = nullptr;  // null if it has none
  Program* program = nullptr;    // of a loaded executable
};

// Thread-safe. A handle is a type and an address: objects of different types may have the same address.
class Handles {
 public:
  // The plugin has returned a new object to the host. Forgets a destroyed object at the same address.
  void AddOwned(Object type, const void* handle, Fn fn, uint32_t stack, const void* client, Program* program = nullptr);
  // The plugin has returned an object that it owns. The object belongs to the client for which it was returned last.
  void AddBorrowed(Object type, const void* handle, Fn fn, const void* client);

  std::optional<Handle> Find(Object type, const void* handle) const;
  // The part of the state that most calls need.
  struct State {
    bool fine = false;  // alive, and not deleted
    bool uncertain = false;
    uint32_t used = 0;
    const void* client = nullptr;
    Program* program = nullptr;
  };
  State GetState(Object type, const void* handle) const;
  // Starts loading the state into the cache, for handles that will be queried together.
  void Prefetch(Object type, const void* handle) const;

  enum class Destroyed { kOk, kUnknown, kTwice, kNotOwned };
  // The host is about to destroy the object. Called before the plugin, because afterwards another object may have the
  // address. `was` gets the previous state.
  Destroyed BeginDestroy(Object type, const void* handle, Fn fn, uint32_t stack, Handle* was);
  // The plugin has refused: restores the state, unless the address has been returned again meanwhile.
  void UndoDestroy(Object type, const void* handle, const Handle& was);

  void MarkDeleted(Object type, const void* handle);
  // Returns the same as GetState, and records that the handle is an argument of an execution that may consume its
  // contents.
  State Use(Object type, const void* handle, uint32_t stack, bool may_consume);
  void SetUncertain(Object type, const void* handle, bool uncertain);
  void MarkReported(Object type, const void* handle);
  // Destroys the objects that the client owns.
  void EndClient(const void* client, Fn fn, uint32_t stack);

  // Visits the living objects that the host owns, in no particular order.
  void ForEachOwned(const std::function<void(Object, const void*, const Handle&)>& visit) const;

 private:
  // Between two steps of a host none of this is in the caches, and a step queries hundreds of handles. Each query
  // accesses one cache line of the shard, of which there are few, and one of the slot.
  struct alignas(64) Slot {
    const void* address = nullptr;  // null: an empty slot
    Handle handle;
    uint32_t destruction_number = 0;  // Shard::destructions
    Object type = Object::None;
  };
  static_assert(sizeof(Slot) == 64);
  static constexpr size_t kShards = 16;
  // For each shard. Older destroyed objects are forgotten when their slots are needed: a host that uses a destroyed
  // object usually does so soon.
  static constexpr uint32_t kMaxDestroyed = 1024;
  // Open addressing, at most half full. Entries are never removed; dead ones are dropped when the shard grows.
  struct alignas(64) Shard {
    mutable SpinLock mutex;
    std::atomic<Slot*> slots{nullptr};  // atomic for Prefetch only, as is mask
    std::atomic<uint32_t> mask{0};      // the number of slots minus one
    uint32_t filled = 0;
    uint32_t destructions = 0;
    std::unique_ptr<Slot[]> memory;
  };
  static_assert(sizeof(Shard) == 64);

  static uint64_t ComputeHash(Object type, const void* handle) {
    return (reinterpret_cast<uint64_t>(handle) ^ static_cast<uint64_t>(type) << 56) * 0x9e3779b97f4a7c15;
  }
  Shard& GetShard(uint64_t hash) { return shards_[hash >> 60]; }
  const Shard& GetShard(uint64_t hash) const { return shards_[hash >> 60]; }
  static uint32_t GetFirstIndex(uint64_t hash, uint32_t mask) { return static_cast<uint32_t>(hash >> 28) & mask; }
  // The shard must be locked. Returns null if there is no entry.
  static Slot* FindSlot(const Shard& shard, uint64_t hash, Object type, const void* handle);
  static Slot& FindOrInsertSlot(Shard& shard, uint64_t hash, Object type, const void* handle);
  static void Move(Shard& shard);
  static void MarkDestroyed(Shard& shard, Slot& slot, Fn fn, uint32_t stack);
  static State StateIn(const Slot& slot);
  Shard shards_[kShards];
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_HANDLES_H_
