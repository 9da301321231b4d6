// A pool of memory for device buffers and temporaries. It keeps freed blocks and reuses them, because touching fresh
// pages takes longer than almost any kernel that fills them (2.4 GB/s for fresh pages, 50 GB/s for reused ones).
//
// Every block is aligned to kAlignment, and kTailPadding bytes past the requested size may be read and written, so
// vector code needs no special case for the last elements. Blocks of 2 MiB and more use huge pages where the system
// allows them. Contents are not cleared. Thread-safe.
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
    // When more memory than this is free, the pool returns the largest free blocks to the system. Blocks of up to 64
    // KiB do not count, because they stay with the pool.
    size_t max_kept_bytes = size_t{4} << 30;
    // The pool returns free memory to the system before a new allocation would raise bytes_reserved above this; 0: no
    // such limit.
    size_t trim_above_bytes = 0;
    // Allocations that would raise bytes_in_use above this fail; 0: no limit.
    size_t limit_bytes = 0;
  };

  struct Statistics {
    int64_t bytes_in_use = 0;  // as requested, without padding
    int64_t peak_bytes_in_use = 0;
    int64_t bytes_reserved = 0;  // obtained from the system, in use or free
    int64_t peak_bytes_reserved = 0;
    int64_t bytes_kept = 0;  // free memory in the pool
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

  // Allocates a block of `bytes` bytes. 0 is allowed and returns a distinct pointer. Returns nullptr if the system has
  // no memory or the limit would be exceeded.
  void* Allocate(size_t bytes);

  // Frees a block of this pool. Ignores nullptr.
  void Free(void* block);

  // Returns the size that was requested for `block`.
  static size_t RequestedBytes(const void* block);
  // Returns the usable size of `block`: at least the requested size, without kTailPadding.
  static size_t UsableBytes(const void* block);

  // Returns free blocks to the system until at most `keep_bytes` are kept.
  void Trim(size_t keep_bytes = 0);

  Statistics GetStatistics() const;
  // Sets the peaks to the current values, and the largest request to 0.
  void ResetPeaks();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_RUNTIME_MEMORY_POOL_H_
