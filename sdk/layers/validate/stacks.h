// Call stacks as small numbers: taken quickly, kept once each, turned to text when somebody reads them.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_STACKS_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_STACKS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace backplane::layers {

class Stacks {
 public:
  static constexpr int kDepth = 14;
  static constexpr int kLargestDepth = 48;

  // `percent` of the time that passes, and a tenth of a second once, may go into unwinding for Remember.
  explicit Stacks(int64_t percent = 100);

  // The stack of this thread from the frame that returns to `from` outwards, at most `depth` frames of it; from here
  // when there is none such. 0: none could be taken, or too many are kept already. From any thread.
  uint32_t Capture(const void* from, int depth = kDepth);
  // The same for what only might be wanted later. `cfa` is the canonical frame address of the function that returns to
  // `from`: with it a stack that this thread has met before is known again without unwinding, by its return addresses
  // in their places; null: not known. A stack that has to be unwound while the time for that is spent is the one frame
  // that `from` is in.
  uint32_t Remember(const void* from, const void* cfa, int depth);
  // One line a frame, indented: the function where its name is known, the library and the offset in it.
  std::string Text(uint32_t stack) const;
  // How many were unwound for Remember.
  uint64_t unwound() const { return unwound_.load(std::memory_order_relaxed); }

 private:
  struct Frames;
  struct Met;
  struct ThreadsMet;
  static ThreadsMet& MetByThread();
  uint32_t Intern(uint64_t hash, void* const* frames, int count);

  const uint32_t serial_;  // tells these apart from others in the threads' memories
  const int64_t percent_, start_ns_;
  std::atomic<int64_t> spent_ns_{0};
  std::atomic<uint64_t> unwound_{0};
  mutable std::mutex mutex_;
  absl::flat_hash_map<uint64_t, uint32_t> by_hash_;
  std::vector<std::vector<void*>> stacks_{{}};
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_STACKS_H_
