// Does things later, in a thread of its own.
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
  // Does what is left at once.
  ~Timer();
  // At MonotonicNanos() >= due_ns, in the timer's thread; equal times in the order of the calls. From any thread.
  void At(int64_t due_ns, std::function<void()> work);
  // Waits until nothing is left.
  void Drain();

 private:
  void Loop();
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::multimap<int64_t, std::function<void()>> work_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;  // begun with the first work
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_
