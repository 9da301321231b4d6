// A thread pool for programs and copies. The number of threads is bounded, however many tasks wait.
//
// A task is queued until it may start; a queued task has no thread. At most `computing` tasks compute at a time. A task
// that waits for something else marks the time with a Waiting object, and other tasks run meanwhile. Threads that stay
// idle end.
//
// The number of waiting tasks is bounded as well. Deadlock is avoided as follows:
//   - Devices of one launch wait for one another. A launch is open while one of its members runs. Members of open
//     launches start before anything else, so an open launch gets all the threads that it needs. At most
//     `open_launches` launches are open, plus the same number of launches whose members have all been scheduled. This
//     bounds the threads to 2 * open_launches * devices.
//   - A callback into the host may run programs and wait for them. Tasks that are scheduled inside a callback start
//     before anything else. Other tasks that call the host do not start while `host_calls` threads are in the host.
//   - Tasks may also wait for something that these rules do not cover: a callback may wait for work that another thread
//     schedules, or a task may wait without a Waiting object. Then no task ends any more. A watchdog notices this and
//     starts queued tasks beyond the limits: one every 10 to 100 milliseconds up to four times a limit, then one per
//     second.
//
// Thread-safe. The destructor does not wait; scheduled tasks still run.
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
    int computing = 0;      // tasks that compute at a time; 0: CountAvailableCpus(), at least 4
    int max_computing = 0;  // the same if no task ends for a while; 0: four times `computing`, at least 16
    int open_launches = 16;
    int host_calls = 32;
    int spin_microseconds = 0;  // how long an idle thread polls for work before it sleeps; one thread polls at a time
    std::chrono::milliseconds idle{5000};  // a thread without work ends after this time
    // If no task ends for this long, the watchdog starts one more task: if processors are free; if not; if
    // `max_computing` or four times another limit is already exceeded.
    std::chrono::milliseconds stuck{10}, overlap{100}, trickle{1000};
  };

  using Task = absl::AnyInvocable<void()>;
  enum class Kind : uint8_t {
    kProgram,    // starts in the order of scheduling
    kHostCalls,  // the same, and may call the host
    kFirst,      // starts before the other kinds; for short work, such as a copy
  };

  Workers();
  explicit Workers(const Options& options);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `task` soon and returns without blocking. If no thread exists and none can be started, the task runs in the
  // calling thread. Exceptions of a task are dropped.
  void Schedule(Task task, Kind kind = Kind::kProgram);

  // Schedules a task that waits for the other tasks of the same `launch`. A launch has `members` tasks.
  void ScheduleMember(int64_t launch, int64_t members, Task task);

  // From now on no idle thread polls, as with spin_microseconds = 0. For processes that share their cores with others,
  // whose work a polling thread would delay.
  void StopSpinning();

  // While such an object exists, the current thread waits for other devices of its launch or is in the host. May be
  // nested, and may be used on threads that do not belong to the pool.
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

  // For a task that needs something that running tasks will release, such as memory. Read `changes`, try to get it, and
  // on failure wait for a change. WaitForChange returns false after `patience`. It returns false without waiting if no
  // other task computes, because only computing tasks are sure to end.
  uint64_t changes() const;
  bool WaitForChange(uint64_t since, std::chrono::milliseconds patience);

  // Waits until no task is queued or running. Returns false after `limit`. Returns at once if called from a task, which
  // would wait for itself.
  bool WaitUntilIdle(std::chrono::milliseconds limit);

  struct Statistics {
    int64_t threads = 0, peak_threads = 0;  // without the watchdog
    int64_t computing = 0, in_host = 0, open_launches = 0;
    int64_t queued = 0;  // tasks that have not started
  };
  Statistics GetStatistics() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_WORKERS_H_
