// Memory for device buffers and temporaries that is kept and handed out again, because fresh pages cost more than
// almost any kernel that fills them (2.4 GB/s to touch, against 50 to reuse).
//
// Every block is aligned to kAlignment, and kTailPadding bytes past the requested size may be read and written, so
// vector code needs no tail on our own buffers. Blocks of 2 MiB and more are backed by huge pages where the system
// allows. Contents are not cleared. All functions may be called from any thread.
#ifndef BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_POOL_H_
#define BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace backplane::engine {

class MemoryPool {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kTailPadding = 64;

  struct Options {
    // Free memory above this bound goes back to the system, largest blocks first.
    size_t max_kept_bytes = size_t{4} << 30;
    // Free memory goes back to the system before new memory would raise bytes_reserved above this; 0: no such bound.
    size_t trim_above_bytes = 0;
    // Allocations that would raise bytes_in_use above this fail; 0: no limit.
    size_t limit_bytes = 0;
  };

  struct Statistics {
    int64_t bytes_in_use = 0;  // as requested, without padding
    int64_t peak_bytes_in_use = 0;
    int64_t bytes_reserved = 0;  // held from the system, in use or kept
    int64_t peak_bytes_reserved = 0;
    int64_t bytes_kept = 0;  // held and free
    int64_t largest_free_block_bytes = 0;
    int64_t largest_alloc_bytes = 0;  // largest request ever made
    int64_t num_allocations = 0;      // calls that succeeded, ever
    int64_t num_live = 0;             // blocks in use
    int64_t bytes_limit = 0;          // 0: none
  };

  MemoryPool();
  explicit MemoryPool(const Options& options);
  // Every block must have been freed.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // A block of `bytes` (0 is allowed and gives a distinct pointer), or nullptr when the system or the limit refuses.
  void* Allocate(size_t bytes);

  // Gives back a block from Allocate of this pool; nullptr is ignored.
  void Free(void* block);

  // Size asked for when `block` was allocated.
  static size_t RequestedBytes(const void* block);
  // Bytes that may be used at `block`: at least the requested size, without kTailPadding.
  static size_t UsableBytes(const void* block);

  // Gives free blocks back to the system until at most `keep_bytes` stay.
  void Trim(size_t keep_bytes = 0);

  Statistics GetStatistics() const;
  // Peaks become what is held now; the largest request starts again.
  void ResetPeaks();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_POOL_H_
