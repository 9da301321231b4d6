// Runs functions at a later time on its own thread.
#ifndef BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_
#define BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "base/mutex.h"

namespace backplane::layers {

class Timer {
 public:
  Timer() = default;
  // Runs the remaining functions at once.
  ~Timer();
  // Runs `work` on the timer's thread when ReadMonotonicNanos() >= due_ns. Functions with equal times run in the order
  // of the calls. Thread-safe.
  void At(int64_t due_ns, std::function<void()> work);
  // Waits until no function remains.
  void Drain();

 private:
  void Loop();
  Mutex mutex_;
  CondVar changed_, idle_;
  std::multimap<int64_t, std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false, ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // started with the first function
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_FAULT_TIMER_H_
