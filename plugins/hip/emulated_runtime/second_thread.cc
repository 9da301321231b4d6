#include "plugins/hip/emulated_runtime/second_thread.h"

#include <utility>

namespace backplane::hip::emulated {

SecondThread::~SecondThread() {
  std::thread thread;
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

bool SecondThread::TryStart(std::function<void()> work) {
  MutexLock lock(mu_);
  if (in_use_) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { RunWork(); });
  in_use_ = true;
  done_ = false;
  work_ = std::move(work);
  changed_.NotifyAll();
  return true;
}

void SecondThread::Await() {
  MutexLock lock(mu_);
  while (!done_) changed_.Wait(mu_);
  in_use_ = false;
}

void SecondThread::RunWork() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mu_);
      while (!work_ && !ending_) changed_.Wait(mu_);
      if (!work_) return;
      work = std::exchange(work_, nullptr);
    }
    work();
    MutexLock lock(mu_);
    done_ = true;
    changed_.NotifyAll();
  }
}

}  // namespace backplane::hip::emulated
