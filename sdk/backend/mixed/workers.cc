#include "sdk/backend/mixed/workers.h"

#include <chrono>
#include <thread>
#include <utility>

namespace backplane::mixed {

void Workers::Schedule(std::function<void()> task) {
  bool need_thread;
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->tasks.push_back(std::move(task));
    need_thread = state_->tasks.size() > state_->idle;
  }
  if (need_thread) {
    std::thread(&Workers::Run, state_).detach();
  } else {
    state_->cv.notify_one();
  }
}

void Workers::Run(std::shared_ptr<State> state) {
  constexpr auto kIdle = std::chrono::seconds(5);
  std::unique_lock<std::mutex> lock(state->mu);
  while (true) {
    ++state->idle;
    const bool work = state->cv.wait_for(lock, kIdle, [&] { return !state->tasks.empty(); });
    --state->idle;
    if (!work) return;
    std::function<void()> task = std::move(state->tasks.front());
    state->tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace backplane::mixed
