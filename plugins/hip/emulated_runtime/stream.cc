#include "plugins/hip/emulated_runtime/stream.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/capture.h"
#include "plugins/hip/emulated_runtime/device.h"
#include "plugins/hip/emulated_runtime/report.h"
#include "plugins/hip/emulated_runtime/runtime.h"

namespace backplane::hip::emulated {

Stream::Stream(Device& device, int number, unsigned flags, int priority)
    : device_(device),
      number_(number),
      index_(device.runtime().order().AddStream()),
      flags_(flags),
      priority_(priority) {}

Stream::~Stream() { Close(true); }

std::string Stream::Describe() const {
  return is_null() ? absl::StrCat("the null stream of device ", device_.ordinal())
                   : absl::StrCat("stream ", number_, " of device ", device_.ordinal());
}

StreamPosition Stream::Enqueue(Work work, std::vector<StreamPosition> after) {
  OrderTracker& order = device_.runtime().order();
  for (const StreamPosition& position : after) order.Order(index_, position.clock);
  MutexLock lock(mu_);
  // The number within the stream is the place in the queue, so both are taken under one lock.
  OperationPtr operation = order.Begin(index_, absl::StrCat(work.text, " on ", Describe()));
  StreamPosition position{shared_from_this(), ++enqueued_, operation->clock};
  queue_.push_back({std::move(work), std::move(operation), std::move(after)});
  if (!thread_.joinable() && !closing_) thread_ = std::thread([this] { RunQueue(); });
  changed_.NotifyAll();
  return position;
}

StreamPosition Stream::Tail() {
  MutexLock lock(mu_);
  return {shared_from_this(), enqueued_, device_.runtime().order().GetClock(index_)};
}

bool Stream::IsDone(uint64_t sequence) {
  MutexLock lock(mu_);
  return done_ >= sequence;
}

void Stream::Await(uint64_t sequence) {
  MutexLock lock(mu_);
  while (done_ < sequence && !dropping_) changed_.Wait(mu_);
}

void Stream::Close(bool drop) {
  std::thread thread;
  {
    MutexLock lock(mu_);
    closing_ = true;
    dropping_ = dropping_ || drop;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  // Work that was not run holds records of events, and these hold the stream: nobody would ever release either.
  std::deque<Queued> dropped;
  MutexLock lock(mu_);
  if (dropping_) dropped.swap(queue_);
}

std::shared_ptr<Capture> Stream::capture() {
  MutexLock lock(mu_);
  return capture_;
}

void Stream::set_capture(std::shared_ptr<Capture> capture) {
  MutexLock lock(mu_);
  capture_ = std::move(capture);
}

void Stream::RunQueue() {
  for (;;) {
    Queued queued;
    {
      MutexLock lock(mu_);
      while (queue_.empty() && !closing_) changed_.Wait(mu_);
      if (dropping_ || queue_.empty()) return;
      queued = std::move(queue_.front());
      queue_.pop_front();
    }
    RunOne(queued);
    queued = {};  // what the work holds is released before anyone sees it done
    MutexLock lock(mu_);
    ++done_;
    changed_.NotifyAll();
  }
}

void Stream::RunOne(Queued& queued) {
  for (const StreamPosition& position : queued.after) position.stream->Await(position.sequence);
  const int64_t latency = device_.runtime().settings().latency_us;
  if (queued.work.has_latency && latency > 0) std::this_thread::sleep_for(std::chrono::microseconds(latency));
  try {
    if (queued.work.action && device_.error() == hipSuccess) {
      const hipError_t error = queued.work.action(queued.operation);
      if (error != hipSuccess) device_.Poison(error, queued.operation->text);
    }
    if (queued.work.always) queued.work.always(queued.operation, device_.error());
  } catch (const std::exception& exception) {
    device_.Poison(hipErrorLaunchFailure, absl::StrCat(queued.operation->text, ": ", exception.what()));
  } catch (...) {
    device_.Poison(hipErrorLaunchFailure, absl::StrCat(queued.operation->text, ": it threw"));
  }
}

std::shared_ptr<Event::Record> Event::record() {
  MutexLock lock(mu_);
  return record_;
}

void Event::set_record(std::shared_ptr<Record> record) {
  MutexLock lock(mu_);
  record_ = std::move(record);
}

}  // namespace backplane::hip::emulated
