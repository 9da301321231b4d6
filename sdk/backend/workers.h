// The threads that run whole programs and copies, bounded in number however many wait.
//
// A task is queued until it may begin; a queued task owns no thread. At most `computing` tasks compute at a time. A
// task that waits for somebody else says so with a Waiting, and others run meanwhile. Idle threads retire.
//
// What waits is bounded too, and still nothing can deadlock:
//   - Devices of one launch wait for one another. A launch is open while one of its members runs; members of open
//     launches begin before anything else, so an open launch gets all the threads it needs. At most `open_launches` are
//     open, and as many more whose members have all been scheduled. Threads: (2 * open_launches) * devices.
//   - A callback into the host may run programs and wait for them. What is scheduled from inside of it begins before
//     anything else; of other tasks that call the host, none begins while `host_calls` threads are in the host.
//   - Where tasks wait for something that these rules do not know (a callback for what another thread schedules, a task
//     that waits without saying so), no task ends any more. A watch then lets queued tasks begin beyond the limits,
//     one every 10 to 100 milliseconds up to four times a limit and one a second from there on.
//
// Thread-safe. Destruction waits for nothing: what was scheduled still runs.
#ifndef BACKPLANE_SDK_BACKEND_WORKERS_H_
#define BACKPLANE_SDK_BACKEND_WORKERS_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"

namespace backplane {

class Workers {
 public:
  struct Options {
    int computing = 0;       // tasks that compute at a time; 0: one for each cpu (AvailableCpus), at least 4
    int most_computing = 0;  // where none of them ends for a while; 0: four times as many, at least 16
    int open_launches = 16;
    int host_calls = 32;
    int spin_microseconds = 0;  // that an idle thread looks for work before it sleeps; one thread at a time does
    std::chrono::milliseconds idle{5000};  // after which a thread without work ends
    // Without any task's end, until the watch lets one more begin: where processors are free; where not; beyond
    // `most_computing` or four times the other limits.
    std::chrono::milliseconds stuck{10}, overlap{100}, trickle{1000};
  };

  using Task = absl::AnyInvocable<void()>;
  enum class Kind : uint8_t {
    kProgram,    // begins in the order of scheduling
    kHostCalls,  // the same, and may call the host
    kFirst,      // begins before those: short work, such as a copy
  };

  Workers();
  explicit Workers(const Options& options);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `task` soon. Never blocks, but where no thread runs and none can be started: then the task runs here. What a
  // task throws is dropped with it.
  void Schedule(Task task, Kind kind = Kind::kProgram);

  // A task that waits for others of the same `launch`, of which there are `members`.
  void ScheduleMember(int64_t launch, int64_t members, Task task);

  // While it exists, this thread waits for other devices of its launch, or is in the host. On threads of others too;
  // may be nested.
  class Waiting {
   public:
    enum class For : uint8_t { kDevices, kHost };
    explicit Waiting(For what);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    const For what_;
  };

  // For who needs what running tasks will give back, such as memory: read `changes`, try, and if that fails wait for a
  // change since then. False, without waiting, when no other task computes, since only those end without anybody's
  // help; false too after `patience`.
  uint64_t changes() const;
  bool WaitForChange(uint64_t since, std::chrono::milliseconds patience);

  // Returns once nothing is queued or running, or false after `limit`; at once in a task, which would wait for itself.
  bool WaitUntilIdle(std::chrono::milliseconds limit);

  struct Statistics {
    int64_t threads = 0, peak_threads = 0;  // the watch not counted
    int64_t computing = 0, in_host = 0, open_launches = 0;
    int64_t queued = 0;  // tasks that have not begun
  };
  Statistics GetStatistics() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_WORKERS_H_
