// Memory of a device, or pinned memory of the host, handed out in blocks from slabs that are taken from the runtime.
//
// The runtime's own allocation is slow and its release waits for the device, so memory is taken in slabs and kept. A
// slab is as large as the request that needs it, or larger for small requests: an eighth of what the pool has, at least
// Options::slab_bytes and at most 1 GiB. Blocks are found by best fit; free neighbours of a slab are merged. Requests
// of up to 4 KiB have size classes (powers of two from 256 bytes on) and share runs of 64 KiB. Slabs without blocks are
// released when memory is short, by ReleaseEmptySlabs, and by the destructor.
//
// The pool knows nothing of streams: a block must be freed only when nothing on the device uses it any more.
//
// With slab_bytes = 0 each block is an allocation of the runtime, of exactly the size asked for. The emulated runtime
// checks accesses for each of its allocations, so it then finds accesses beyond a block and after its release.
//
// Thread-safe. The source is called without the lock that Allocate and Free need. Free allocates no memory of the host,
// because destructors call it: Allocate has made the entries that Free needs.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_MEMORY_POOL_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_MEMORY_POOL_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "sdk/backend/backend.h"

namespace backplane::hip {

class MemoryPool {
 public:
  static constexpr size_t kAlignment = 256;  // of the addresses, if the source aligns its own so

  struct Source {
    std::function<absl::StatusOr<void*>(size_t bytes)> allocate;
    std::function<void(void* address)> free;
  };
  struct Options {
    std::string name;         // for messages: "device 0"
    size_t slab_bytes = 0;    // 0: each block is an allocation of its own
    int64_t limit_bytes = 0;  // of what is taken from the source at a time; 0: no limit
  };

  MemoryPool(Source source, Options options);
  // Releases all slabs, also those with blocks in use.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // If the source has no memory or the limit is reached, releases the empty slabs and tries once more. Then returns
  // ResourceExhausted, with the bytes that are asked for, in use, taken and allowed, and the error of the source. Other
  // errors of the source are returned at once.
  absl::StatusOr<void*> Allocate(size_t bytes);
  // Frees a block. `bytes` is the size that was passed to Allocate.
  void Free(void* address, size_t bytes);

  // Whether the range is within a slab.
  bool Contains(const void* address, size_t bytes) const;
  // Releases the slabs that have no block in use. Returns their bytes.
  size_t ReleaseEmptySlabs();
  int64_t limit_bytes() const { return options_.limit_bytes; }

  // `bytes_in_use` counts blocks with their rounding, `pool_bytes` slabs.
  MemoryStats Stats() const;
  void ClearStats();  // sets the peak to the bytes in use and the other counts to 0

 private:
  static constexpr size_t kRunBytes = 64 << 10, kMaxSmall = 4096, kMaxSlab = size_t{1} << 30;
  static constexpr int kClasses = 5;  // 256, 512, 1024, 2048, 4096

  struct Slab {
    size_t bytes, used;
  };
  using Runs = std::set<uintptr_t>;
  // A block that is divided into cells of one size class.
  struct Run {
    int size_class;
    std::bitset<kRunBytes / kAlignment> taken;
    size_t count = 0;
    Runs::node_type full;  // the run's entry in runs_with_room_ while it has no room
  };
  using Slabs = std::map<uintptr_t, Slab>;
  using FreeBlocks = std::map<uintptr_t, size_t>;             // by address
  using FreeBySize = std::set<std::pair<size_t, uintptr_t>>;  // bytes and address
  struct FreeEntry {
    FreeBlocks::node_type block;
    FreeBySize::node_type by_size;
  };

  static int SizeClass(size_t bytes);
  static size_t CellBytes(int size_class) { return kAlignment << size_class; }
  static size_t RoundedBytes(size_t bytes);

  absl::StatusOr<void*> AllocateSlabFor(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(grow_mu_);
  // Takes a slab from the source. `bytes` of it are used at once.
  absl::StatusOr<void*> AddSlab(size_t slab_bytes, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(grow_mu_);
  // Returns the ResourceExhausted error that Allocate describes.
  absl::Status MakeExhaustedError(size_t bytes, const absl::Status& why) const;

  // Return null if no slab has room.
  void* Take(size_t rounded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void* TakeCell(int size_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uintptr_t TakeBestFit(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // 0: no room
  // Frees the cell at the address. Returns whether there was one.
  bool FreeCell(uintptr_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FreeBlock(uintptr_t address, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Slabs::iterator FindSlab(uintptr_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // These two allocate nothing: they take entries from spares_ and return them.
  void AddFree(uintptr_t address, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveFree(FreeBlocks::iterator block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the entry that a further block or slab may need.
  void ReserveEntry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Count(size_t rounded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Source source_;
  const Options options_;
  Mutex grow_mu_;  // one thread at a time takes slabs; locked before mu_
  mutable Mutex mu_;
  Slabs slabs_ ABSL_GUARDED_BY(mu_);  // by address
  FreeBlocks free_ ABSL_GUARDED_BY(mu_);
  FreeBySize free_by_size_ ABSL_GUARDED_BY(mu_);
  // Free blocks lie between blocks in use and the ends of slabs, so there are at most as many as blocks in use and
  // slabs together, which is `needed_entries_`. So many entries exist, in free_ or in spares_, which has room for all.
  std::vector<FreeEntry> spares_ ABSL_GUARDED_BY(mu_);
  size_t entries_ ABSL_GUARDED_BY(mu_) = 0, needed_entries_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uintptr_t, Run> runs_ ABSL_GUARDED_BY(mu_);
  std::array<Runs, kClasses> runs_with_room_ ABSL_GUARDED_BY(mu_);
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0, in_use_ ABSL_GUARDED_BY(mu_) = 0, peak_ ABSL_GUARDED_BY(mu_) = 0,
                 allocations_ ABSL_GUARDED_BY(mu_) = 0, largest_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_MEMORY_POOL_H_
