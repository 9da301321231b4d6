// Threads that may block: there is always one more when a task needs it. Idle ones go away.
//
// Programs of several devices wait for one another, and a host's callback may run another program, so no fixed number
// of threads would do. Thread-safe. Destruction waits for nothing; tasks given before are still run.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_WORKERS_H_
#define BACKPLANE_SDK_BACKEND_MIXED_WORKERS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace backplane::mixed {

class Workers {
 public:
  Workers() : state_(std::make_shared<State>()) {}
  void Schedule(std::function<void()> task);

 private:
  struct State {
    std::mutex mu;
    std::condition_variable cv;
    std::deque<std::function<void()>> tasks;  // under mu
    size_t idle = 0;                          // under mu
  };
  static void Run(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_WORKERS_H_
