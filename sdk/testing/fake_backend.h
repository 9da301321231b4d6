// A small backend for tests of the code around backends. It runs programs with the evaluator on the calling thread, or
// holds executions back until the test releases them. Defines backplane::CreateBackend.
//
// Create options: "devices" (int64, default 2). Every device has two memories: "device", which is host memory, and
// "remote", which holds 4096 bytes and is reached only by copies.
#ifndef BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_
#define BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/transfer_service.h"

namespace backplane::testing {

// Lets a test observe and control the backend; one per process.
class FakeControl {
 public:
  static FakeControl& Get();

  // Makes executions wait until ReleaseAll().
  void Hold() { hold_ = true; }
  // Runs the waiting executions in order on the calling thread. Later executions run at once.
  void ReleaseAll();
  // Drops the waiting executions, like a backend that loses its work.
  void DropAll();
  // Makes an execution fail: the launch itself (`at_launch`) or its outputs. `later` executions succeed first.
  void FailNext(absl::Status status, bool at_launch, int later = 0);

  // Makes outputs that are arguments share the memory of the arguments.
  std::atomic<bool> forward{false};

  // Makes copies between memories throw std::bad_alloc.
  std::atomic<bool> copies_throw{false};
  // Gives each new client a worker thread for its tasks. The destructor of the client waits for this thread.
  std::atomic<bool> own_worker{false};
  std::atomic<int64_t> clients{0};         // alive
  std::atomic<int64_t> closed_clients{0};  // calls of Client::Close

  // If `interrupts_donation` is set, the next call that donates runs `when_donating` before it has finished.
  std::atomic<bool> interrupts_donation{false};
  std::function<void()> when_donating;

  std::vector<int64_t> run_ids;             // of all executions, in order
  std::vector<int64_t> abandoned;           // run ids
  std::vector<bool> last_donated;           // of the last execution
  NamedValues last_options;                 // likewise
  std::vector<const void*> last_arguments;  // addresses of its arguments
  std::atomic<int64_t> storages{0};         // alive
  std::atomic<int64_t> executables{0};      // loaded ones alive

  // Makes copies wait, as on a device that works asynchronously. The test completes each by its number, counted from 0
  // since the last ForgetCopies. Their events have signals.
  std::atomic<bool> queues_copies{false};
  size_t queued_copies();
  void FinishCopy(size_t number);                     // copies and sets the events
  void ReleaseHost(size_t number);                    // sets only `host_released`
  void FailCopy(size_t number, absl::Status status);  // sets the events to this
  void DropCopy(size_t number);                       // drops it without setting its events
  void ForgetCopies();
  std::vector<bool> last_signals;  // by argument of the last execution: whether its event had one of our signals

  std::atomic<bool> offers_staging{false};   // of 1000 bytes at most
  std::map<const void*, size_t> registered;  // host memory
  LoadOptions last_load;
  std::shared_ptr<KeyValueStore> key_values;  // of the last client
  Event stream_event;                         // the event of a stream
  const void* last_stream = nullptr;          // of the last request
  std::atomic<int> traces{0};                 // begun and not ended
  std::atomic<int> compilations{0};           // of modules

  // The devices of later clients from this one on belong to another process, to which `transfers` copies.
  std::atomic<int32_t> first_device_elsewhere{INT32_MAX};
  std::atomic<TransferService*> transfers{nullptr};

  // The following is used by the backend itself.
  struct QueuedCopy {
    std::function<absl::Status()> run;  // keeps the storages alive
    Promise done, host_released;
    Event after;
  };
  size_t Queue(QueuedCopy copy);
  QueuedCopy TakeCopy(size_t number);
  void Run(std::function<void()> work);
  absl::Status TakeFailure(bool at_launch);

 private:
  Mutex mu_;
  std::atomic<bool> hold_{false};
  std::vector<std::function<void()>> held_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  bool failure_at_launch_ ABSL_GUARDED_BY(mu_) = false;
  int failure_later_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<QueuedCopy> copies_ ABSL_GUARDED_BY(mu_);  // completed ones become empty and keep their index
};

}  // namespace backplane::testing

#endif  // BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_
