// What executions of a program do to their arguments.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_PROGRAMS_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_PROGRAMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace backplane::layers {

// Which arguments a program takes from the host (donation) is settled when it is compiled, but no function of the API
// tells. It is learned: after each of the first executions the plugin is asked which arguments still have contents.
// Thread-safe.
class Program {
 public:
  explicit Program(size_t num_outputs) : outputs(num_outputs) {}
  const size_t outputs;  // on each device

  // An execution begins. True when every argument has to be asked for and not only those that there is doubt of: while
  // it is learned what the program takes, and later once in so many times, should it have changed its ways.
  bool Begin() {
    const uint32_t before = executions_.fetch_add(1, std::memory_order_relaxed);
    return !Learned() || before % kAllAskedOneIn == 0;
  }
  bool Learned() const { return watched_.load(std::memory_order_acquire) >= kWatched; }
  // Whether an execution may take the argument at this place. Only when it is learned.
  bool MayTake(size_t argument) const {
    return argument >= num_arguments_ || (takes_[argument / 64] >> argument % 64 & 1) != 0;
  }
  // An execution has succeeded; `may_take` has a bit for each of its arguments, in words: it was taken, or the host had
  // forbidden to.
  void Watched(size_t num_arguments, const std::vector<uint64_t>& may_take);

 private:
  static constexpr uint32_t kWatched = 8, kAllAskedOneIn = 64;
  std::atomic<uint32_t> executions_{0}, watched_{0};
  std::mutex mutex_;  // of the two below until it is learned; then they stay as they are
  size_t num_arguments_ = 0;
  std::vector<uint64_t> takes_;
};

// All there ever were: whoever looks at one need not know whether it has been destroyed meanwhile.
class Programs {
 public:
  Program* Add(size_t num_outputs) {
    std::lock_guard<std::mutex> lock(mutex_);
    return &programs_.emplace_back(num_outputs);
  }

 private:
  std::mutex mutex_;
  std::deque<Program> programs_;
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_PROGRAMS_H_
