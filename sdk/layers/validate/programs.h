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
    return !HasLearned() || before % kAllAskedOneIn == 0;
  }
  bool HasLearned() const { return observed_.load(std::memory_order_acquire) >= kExecutionsToLearn; }
  // Whether an execution may consume the argument at this index. Valid only after learning.
  bool MayConsume(size_t argument) const {
    return argument >= num_arguments_ || (consumes_[argument / 64] >> argument % 64 & 1) != 0;
  }
  // An execution has succeeded. `may_consume` has a bit for each argument, in words: the argument was consumed, or the
  // host declared it non-donatable.
  void RecordExecution(size_t num_arguments, const std::vector<uint64_t>& may_consume);

 private:
  static constexpr uint32_t kExecutionsToLearn = 8, kAllAskedOneIn = 64;
  std::atomic<uint32_t> executions_{0}, observed_{0};
  Mutex mutex_;  // guards the following two until learning ends; then they are constant
  size_t num_arguments_ = 0;
  std::vector<uint64_t> consumes_;
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
