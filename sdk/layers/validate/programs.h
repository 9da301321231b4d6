// Learns which arguments executions of a program consume.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_PROGRAMS_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_PROGRAMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/mutex.h"

namespace backplane::layers {

// Compilation decides which arguments a program consumes (donation), but no function of the API reports it. The layer
// learns it: after each of the first executions the plugin is asked which arguments still have contents. Thread-safe.
class Program {
 public:
  explicit Program(size_t num_outputs) : outputs(num_outputs) {}
  const size_t outputs;  // on each device

  // An execution begins. Returns true if the state of all arguments must be queried, and not only that of uncertain
  // ones: while the program is being learned, and later at regular intervals, in case its behaviour changes.
  bool Begin() {
    const uint32_t before = executions_.fetch_add(1, std::memory_order_relaxed);
    return !Learned() || before % kAllAskedOneIn == 0;
  }
  bool Learned() const { return watched_.load(std::memory_order_acquire) >= kWatched; }
  // Whether an execution may consume the argument at this index. Valid only after learning.
  bool MayTake(size_t argument) const {
    return argument >= num_arguments_ || (takes_[argument / 64] >> argument % 64 & 1) != 0;
  }
  // An execution has succeeded. `may_take` has a bit for each argument, in words: the argument was consumed, or the
  // host declared it non-donatable.
  void Watched(size_t num_arguments, const std::vector<uint64_t>& may_take);

 private:
  static constexpr uint32_t kWatched = 8, kAllAskedOneIn = 64;
  std::atomic<uint32_t> executions_{0}, watched_{0};
  Mutex mutex_;  // guards the following two until learning ends; then they are constant
  size_t num_arguments_ = 0;
  std::vector<uint64_t> takes_;
};

// All programs, including destroyed ones, so that pointers to them stay valid.
class Programs {
 public:
  Program* Add(size_t num_outputs) {
    MutexLock lock(mutex_);
    return &programs_.emplace_back(num_outputs);
  }

 private:
  Mutex mutex_;
  std::deque<Program> programs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_PROGRAMS_H_
