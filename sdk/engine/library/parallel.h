// Loops on a thread pool, which may be null.
#ifndef BACKPLANE_SDK_ENGINE_LIBRARY_PARALLEL_H_
#define BACKPLANE_SDK_ENGINE_LIBRARY_PARALLEL_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "sdk/engine/runtime/thread_pool.h"

namespace backplane::engine {

inline int PoolThreads(ThreadPool* pool) { return pool == nullptr ? 1 : pool->num_threads(); }

// Calls fn(begin, end, slot) for ranges that cover [0, total). Without a pool, with one thread, or if `grain` items
// cover everything, calls it once in this thread.
inline void ForRange(ThreadPool* pool, int64_t total, int64_t grain,
                     absl::FunctionRef<void(int64_t, int64_t, int)> fn) {
  if (total <= 0) return;
  if (pool == nullptr || total <= grain || pool->num_threads() == 1) return fn(0, total, 0);
  pool->ParallelRange(total, grain, fn);
}

// Calls fn(chunk, slot) for each chunk.
inline void ForChunks(ThreadPool* pool, int64_t chunks, absl::FunctionRef<void(int64_t, int)> fn) {
  if (pool == nullptr || chunks <= 1 || pool->num_threads() == 1) {
    for (int64_t c = 0; c < chunks; ++c) fn(c, 0);
  } else {
    pool->ParallelFor(chunks, fn);
  }
}

// Rounds bytes up to a multiple of 64.
inline int64_t AlignTo64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_LIBRARY_PARALLEL_H_
