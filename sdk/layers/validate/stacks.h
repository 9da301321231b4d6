// Call stacks, identified by numbers. They are captured quickly, stored once each, and converted to text on demand.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_STACKS_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_STACKS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace backplane::layers {

class Stacks {
 public:
  static constexpr int kDepth = 14;
  static constexpr int kLargestDepth = 48;

  // At most `percent` of the elapsed time, plus a tenth of a second, is spent on unwinding for Remember.
  explicit Stacks(int64_t percent = 100);

  // Captures the stack of this thread, at most `depth` frames outwards from the frame that returns to `from`, or from
  // the current frame if there is no such frame. Returns 0 if that fails or if too many stacks are stored. Thread-safe.
  uint32_t Capture(const void* from, int depth = kDepth);
  // The same for a stack that may be needed later. `cfa` is the canonical frame address of the function that returns to
  // `from`, or null if it is unknown. With it, a stack that this thread has had before is recognized by its return
  // addresses on the stack, without unwinding. If a stack has to be unwound while the time budget is exhausted, only
  // the frame with `from` is stored.
  uint32_t Remember(const void* from, const void* cfa, int depth);
  // Returns one indented line per frame: the function, if its name is known, the library, and the offset in it.
  std::string Text(uint32_t stack) const;
  // Returns how many stacks were unwound for Remember.
  uint64_t unwound() const { return unwound_.load(std::memory_order_relaxed); }

 private:
  struct Frames;
  struct KnownStack;
  struct ThreadStacks;
  static ThreadStacks& GetThreadStacks();
  uint32_t Intern(uint64_t hash, void* const* frames, int count);

  const uint32_t serial_;  // identifies this object in the threads' caches
  const int64_t percent_, start_ns_;
  std::atomic<int64_t> spent_ns_{0};
  std::atomic<uint64_t> unwound_{0};
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, uint32_t> by_hash_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<void*>> stacks_ ABSL_GUARDED_BY(mutex_){{}};
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_STACKS_H_
