// Runs functions at a later time on its own thread.
#ifndef BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_
#define BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace backplane::layers {

class Timer {
 public:
  Timer() = default;
  // Runs the remaining functions at once.
  ~Timer();
  // Runs `work` on the timer's thread when MonotonicNanos() >= due_ns. Functions with equal times run in the order of
  // the calls. Thread-safe.
  void At(int64_t due_ns, std::function<void()> work);
  // Waits until no function remains.
  void Drain();

 private:
  void Loop();
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::multimap<int64_t, std::function<void()>> work_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;  // started with the first function
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_
