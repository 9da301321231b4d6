// A small backend for tests of what stands around backends: it runs programs with the evaluator in the calling thread,
// or holds every execution back until a test lets it go. Defines backplane::CreateBackend.
//
// Create options: "devices" (int64, default 2). Every device has two memories: "device", host memory, and "remote",
// which only copies can reach and which holds 4096 bytes.
#ifndef BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_
#define BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sdk/backend/backend.h"

namespace backplane::testing {

// What a test sees and steers; one for the process.
class FakeControl {
 public:
  static FakeControl& Get();

  // From now on executions wait until ReleaseAll().
  void Hold() { hold_ = true; }
  // Runs what was held back, in order, in the calling thread; later executions run at once.
  void ReleaseAll();
  // Forgets what was held back, as a backend does that loses its work.
  void DropAll();
  // An execution fails: the launch itself (`at_launch`), or its outputs. It is the next but `later`.
  void FailNext(absl::Status status, bool at_launch, int later = 0);

  // Outputs that are arguments lie in the arguments' memory.
  std::atomic<bool> forward{false};

  // Copies between memories throw std::bad_alloc.
  std::atomic<bool> copies_throw{false};
  // Clients made from now on have a worker thread for their tasks, which their end waits for.
  std::atomic<bool> own_worker{false};
  std::atomic<int64_t> clients{0};  // alive

  // Once `interrupts_donation` is set, the next call that donates runs `when_donating` in its middle.
  std::atomic<bool> interrupts_donation{false};
  std::function<void()> when_donating;

  std::vector<int64_t> run_ids;             // of all executions, in order
  std::vector<int64_t> abandoned;           // run ids
  std::vector<bool> last_donated;           // of the last execution
  NamedValues last_options;                 // likewise
  std::vector<const void*> last_arguments;  // addresses of its arguments
  std::atomic<int64_t> storages{0};         // alive
  std::atomic<int64_t> executables{0};      // loaded ones alive

  // Copies are queued from now on, as a device does that works by itself: a test ends each as it likes, by its number,
  // counted from 0 since the last ForgetCopies. Their events have signals.
  std::atomic<bool> queues_copies{false};
  size_t queued_copies();
  void FinishCopy(size_t number);                     // copies, sets the events
  void ReleaseHost(size_t number);                    // sets `host_released` alone
  void FailCopy(size_t number, absl::Status status);  // sets the events to this
  void DropCopy(size_t number);                       // loses it without a word
  void ForgetCopies();
  std::vector<bool> last_signals;  // of the last execution: whether an argument's event had a signal of ours

  std::atomic<bool> offers_staging{false};   // of 1000 bytes at most
  std::map<const void*, size_t> registered;  // host memory
  LoadOptions last_load;
  std::shared_ptr<KeyValueStore> key_values;  // of the last client
  Event stream_event;                         // what a stream's event is
  const void* last_stream = nullptr;          // that was asked for
  std::atomic<int> traces{0};                 // begun and not ended

  // For the backend.
  struct QueuedCopy {
    std::function<absl::Status()> run;  // holds the storages
    Promise done, host_released;
    Event after;
  };
  size_t Queue(QueuedCopy copy);
  QueuedCopy TakeCopy(size_t number);
  void Run(std::function<void()> work);
  absl::Status TakeFailure(bool at_launch);

 private:
  std::mutex mu_;
  std::atomic<bool> hold_{false};
  std::vector<std::function<void()>> held_;
  absl::Status failure_;            // under mu_
  bool failure_at_launch_ = false;  // under mu_
  int failure_later_ = 0;           // under mu_
  std::vector<QueuedCopy> copies_;  // under mu_; emptied ones stay in their place
};

}  // namespace backplane::testing

#endif  // BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_
