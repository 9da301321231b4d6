// A small backend for tests of what stands around backends: it runs programs with the evaluator in the calling thread,
// or holds every execution back until a test lets it go. Defines backplane::CreateBackend.
//
// Create options: "devices" (int64, default 2). Every device has two memories: "device", host memory, and "remote",
// which only copies can reach and which holds 4096 bytes.
#ifndef BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_
#define BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_

#include <atomic>
#include <functional>
#include <mutex>
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

  // For the backend.
  void Run(std::function<void()> work);
  absl::Status TakeFailure(bool at_launch);

 private:
  std::mutex mu_;
  std::atomic<bool> hold_{false};
  std::vector<std::function<void()>> held_;
  absl::Status failure_;            // under mu_
  bool failure_at_launch_ = false;  // under mu_
  int failure_later_ = 0;           // under mu_
};

}  // namespace backplane::testing

#endif  // BACKPLANE_SDK_TESTING_FAKE_BACKEND_H_
