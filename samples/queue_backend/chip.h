// A simulated accelerator with its driver: what a HIP or CUDA runtime is to a real one, as small as it can be.
//
//   Memory  the device's own: its addresses are none of the host's, so that whoever follows one outside of the device's
//           queues ends the program at once. Limited.
//   Pinned  the host's memory that the device can reach. It reads and writes no other.
//   Signal  raised by the device when a command has come to its end; commands wait for signals on the device.
//   Queue   runs commands whose signals have been raised: one for programs, one for copies (the DMA engine).
//   Thread  the driver's: there the host hears what has ended, in order.
//
// The device is strict: memory freed under a command that uses it, or a queue ended on its own thread, ends the
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

// Where the device finds an address, its own or one of pinned memory; null: it cannot reach all `bytes` there.
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

// Host memory that the device reaches from now on. Ranges may be pinned more than once.
void Pin(const void* data, size_t bytes);
bool Unpin(const void* data);  // false: it was not pinned

// The end of a command, as devices see it.
class Signal : public backplane::Signal {
 public:
  void Raise(bool failed);
  // Runs `next` on the device when the signal has been raised, at once if it has been.
  void Then(std::function<void(bool failed)> next);

 private:
  std::mutex mu_;
  bool raised_ = false, failed_ = false;
  std::vector<std::function<void(bool)>> next_;
};

// Runs tasks one after another. Its end waits for those it has.
class Thread {
 public:
  Thread();
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void Push(std::function<void()> task);

  // For a task that is going to wait for somebody else: those behind it are run by another thread from here on.
  void GiveAway();

 private:
  struct State;
  static void Loop(std::shared_ptr<State> state, int64_t turn);
  static void Start(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

struct Command {
  std::string name, program;                   // for the profiler; `program` empty: it is none
  std::vector<std::shared_ptr<Signal>> after;  // begins when all have been raised; skipped where one failed
  std::vector<const void*> addresses;          // that it uses
  std::function<absl::Status()> work;          // on the device
  std::shared_ptr<Signal> signal;              // raised at its end
  std::function<void(absl::Status)> ended;     // then, on the driver's thread
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
