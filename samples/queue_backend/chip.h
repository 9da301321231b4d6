// A simulated accelerator and its driver. It plays the part of a HIP or CUDA runtime, reduced to the minimum.
//
//   Memory  the device's own memory, of limited size. Its addresses are invalid on the host: if code outside of the
//           device's queues dereferences one, the program ends.
//   Pin     makes host memory accessible to the device. The device cannot access other host memory.
//   Signal  raised by the device when a command has ended. Commands wait for signals on the device.
//   Queue   runs commands whose signals have been raised. A chip has one for programs and one for copies.
//   Thread  runs tasks in order. The driver has one, which reports the end of commands to the host.
//
// The device is strict: freeing memory while a command uses it, or destroying a queue on its own thread, ends the
// program, as a fault on real hardware does. Everything is thread-safe.
#ifndef BACKPLANE_SAMPLES_QUEUE_BACKEND_CHIP_H_
#define BACKPLANE_SAMPLES_QUEUE_BACKEND_CHIP_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/backend/event.h"

namespace chip {

// Returns the address at which the simulated device accesses `address`, which is an address of device memory or of
// pinned memory. Returns null if the device cannot access all `bytes`.
void* Reach(const void* address, size_t bytes);

class Memory {
 public:
  explicit Memory(size_t capacity) : capacity_(capacity) {}
  absl::StatusOr<void*> Allocate(size_t bytes);  // ResourceExhausted
  void Free(void* address, size_t bytes);
  struct Use {
    size_t in_use, peak, capacity;
  };
  Use use() const;

 private:
  const size_t capacity_;
  mutable std::mutex mu_;
  size_t in_use_ = 0, peak_ = 0;
};

// Makes host memory accessible to the device. A range may be pinned several times.
void Pin(const void* data, size_t bytes);
bool Unpin(const void* data);  // false: it was not pinned

// The end of a command, as devices see it.
class Signal : public backplane::Signal {
 public:
  static constexpr char kKind = 0;
  Signal() : backplane::Signal(&kKind) {}
  void Raise(bool failed);
  // Runs `next` on the device once the signal is raised; immediately if it is already raised.
  void Then(std::function<void(bool failed)> next);

 private:
  std::mutex mu_;
  bool raised_ = false, failed_ = false;
  std::vector<std::function<void(bool)>> next_;
};

// Runs tasks one after another. The destructor waits for the tasks in the queue.
class Thread {
 public:
  Thread();
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void Push(std::function<void()> task);

  // Called by a task that is going to wait: from now on another thread runs the tasks that are queued after it.
  void ReleaseQueue();

 private:
  struct State;
  static void Loop(std::shared_ptr<State> state, int64_t generation);
  static void Start(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

struct Command {
  std::string name, program;                   // for the profiler; `program` is empty for a copy
  std::vector<std::shared_ptr<Signal>> after;  // starts when all have been raised; skipped if one failed
  std::vector<const void*> addresses;          // the memory that it uses
  std::function<absl::Status()> work;          // runs on the device
  std::shared_ptr<Signal> signal;              // raised when the work has ended
  std::function<void(absl::Status)> ended;     // runs afterwards on the driver's thread
};

class Queue {
 public:
  Queue(int32_t device, const char* name, Thread* driver) : device_(device), name_(name), driver_(driver) {}
  void Push(Command command);
  Thread& thread() { return thread_; }

 private:
  struct Waiting;
  void Run(Command& command, bool failed);
  const int32_t device_;
  const std::string name_;
  Thread* const driver_;
  Thread thread_;
};

}  // namespace chip

#endif  // BACKPLANE_SAMPLES_QUEUE_BACKEND_CHIP_H_
