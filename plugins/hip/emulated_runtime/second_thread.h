// A thread beside a stream's own, for one half of the blocks of a launch.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_SECOND_THREAD_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_SECOND_THREAD_H_

#include <functional>
#include <thread>

#include "base/mutex.h"

namespace backplane::hip::emulated {

// Thread-safe. The thread is started by the first use and ends with the object, which nobody may use then.
class SecondThread {
 public:
  SecondThread() = default;
  ~SecondThread();
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  // Starts `work`, which must not throw. Returns false if the thread is in use; otherwise the caller must call Await.
  bool TryStart(std::function<void()> work);
  // Waits for the work's end and makes the thread free.
  void Await();

 private:
  void RunWork();

  Mutex mu_;
  CondVar changed_;
  bool in_use_ ABSL_GUARDED_BY(mu_) = false, done_ ABSL_GUARDED_BY(mu_) = false, ending_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> work_ ABSL_GUARDED_BY(mu_);  // empty unless it was not begun yet
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_SECOND_THREAD_H_
