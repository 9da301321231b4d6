#include "sdk/backend/workers.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "sdk/backend/host_limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace backplane {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kNoLaunch = -1;
// If a yield takes this long, another thread has run. The core is needed then, and no thread spins for a while.
constexpr auto kContendedYieldTime = std::chrono::microseconds(20);
constexpr auto kSpinBackoff = std::chrono::milliseconds(5);
constexpr auto kYieldInterval = std::chrono::microseconds(100);
// The watchdog ends after this time without anything to watch.
constexpr auto kWatchdogIdleTime = std::chrono::seconds(1);

}  // namespace

struct Workers::State : std::enable_shared_from_this<Workers::State> {
  struct Queued {
    Task work;
    int64_t launch = kNoLaunch;
    uint64_t number = 0;  // in the order of scheduling
  };

  struct LaunchState {
    int64_t members = 0, scheduled = 0, ended = 0;
    bool open = false;
    std::list<Queued> held;  // while the launch is not open
  };

  // A task is allocated once, in Schedule, and then only moved between lists. So nothing can fail for want of memory
  // later.
  using TaskList = std::list<Queued>;

  static constexpr uint64_t kNone = UINT64_MAX;  // not a task number

  explicit State(const Options& o) : options(o) {
    if (options.computing <= 0) options.computing = std::max(4, CountAvailableCpus());
    if (options.max_computing <= 0) options.max_computing = std::max(16, 4 * options.computing);
  }

  // The state of the current thread. Threads outside the pool use only the counts.
  struct ThreadState {
    State* state = nullptr;
    int waiting = 0, in_host = 0;
  };
  static thread_local ThreadState here;

  Options options;
  mutable Mutex mu;
  CondVar work, changed, idle_changed, watch;
  TaskList first ABSL_GUARDED_BY(mu), programs ABSL_GUARDED_BY(mu), host_calls ABSL_GUARDED_BY(mu);
  std::unordered_map<int64_t, LaunchState> launches
      ABSL_GUARDED_BY(mu);  // of std, which stays valid if there is no memory
  // Launches that are not open, by the number of their first task.
  std::map<uint64_t, int64_t> held ABSL_GUARDED_BY(mu), complete ABSL_GUARDED_BY(mu);
  TaskList begun ABSL_GUARDED_BY(mu);  // started; for each a thread is idle, about to become idle, or being created
  uint64_t next_number ABSL_GUARDED_BY(mu) = 0;
  int64_t threads ABSL_GUARDED_BY(mu) = 0, peak_threads ABSL_GUARDED_BY(mu) = 0;
  int64_t idle ABSL_GUARDED_BY(mu) = 0, spinning ABSL_GUARDED_BY(mu) = 0;
  int64_t computing ABSL_GUARDED_BY(mu) = 0;  // tasks that have started and not ended, without those that wait
  int64_t short_of ABSL_GUARDED_BY(mu) = 0;   // how many of them wait in WaitForChange
  int64_t in_host ABSL_GUARDED_BY(mu) = 0, open ABSL_GUARDED_BY(mu) = 0, unfinished ABSL_GUARDED_BY(mu) = 0;
  int64_t waiting_for_change ABSL_GUARDED_BY(mu) = 0;
  bool watched ABSL_GUARDED_BY(mu) = false, abandoned ABSL_GUARDED_BY(mu) = false;
  // Also read without the lock.
  std::atomic<int64_t> begun_count{0};
  std::atomic<uint64_t> changes{0};
  std::atomic<Clock::rep> no_spin_until{0};
  std::atomic<bool> may_spin{options.spin_microseconds > 0};

  int64_t CountHeldTasks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    int64_t n = 0;
    for (const auto& [number, launch] : held) n += static_cast<int64_t>(launches.at(launch).held.size());
    return n;
  }
  bool HasBacklog() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return !first.empty() || !programs.empty() || !host_calls.empty() || !held.empty();
  }

  // Whether a started task has no thread, because none could be created. If all threads wait for that task, only
  // another attempt helps.
  bool LacksThreads() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return static_cast<int64_t>(begun.size()) > idle; }

  // Starts the first task of `list`.
  void Begin(TaskList& list) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    begun.splice(begun.end(), list, list.begin());
    begun_count.store(static_cast<int64_t>(begun.size()), std::memory_order_release);
    ++computing;
  }

  TaskList PopStarted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    TaskList task;
    task.splice(task.begin(), begun, begun.begin());
    begun_count.store(static_cast<int64_t>(begun.size()), std::memory_order_release);
    return task;
  }

  // Opens a launch. Its members start before anything else, one of them now.
  void Open(int64_t launch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    PromoteLaunch(launch);
    Begin(first);
  }

  void PromoteLaunch(int64_t launch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    LaunchState& l = launches.at(launch);
    held.erase(l.held.front().number);
    complete.erase(l.held.front().number);
    l.open = true;
    ++open;
    first.splice(first.end(), l.held);
  }

  // Starts the oldest task that the limits on waiting threads allow. Returns false if there is none.
  bool BeginNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (!first.empty()) {
      Begin(first);
      return true;
    }
    const uint64_t program = programs.empty() ? kNone : programs.front().number;
    const uint64_t call = host_calls.empty() || in_host >= options.host_calls ? kNone : host_calls.front().number;
    uint64_t launch = kNone;
    if (open < options.open_launches) {
      if (!held.empty()) launch = held.begin()->first;
    } else if (open < 2 * options.open_launches) {
      if (!complete.empty()) launch = complete.begin()->first;
    }
    const uint64_t oldest = std::min({program, call, launch});
    if (oldest == kNone) return false;
    if (oldest == program) {
      Begin(programs);
    } else if (oldest == call) {
      Begin(host_calls);
    } else {
      Open(held.at(oldest));
    }
    return true;
  }

  // Starts all tasks that may start, and ensures that they have threads. `self`: the caller is about to run a task.
  // Returns false if a task has been started but no thread runs and none can be created.
  bool Dispatch(bool self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    while (computing < options.computing && BeginNext()) {
    }
    const bool served = WakeOrStartThreads(self);
    if (!watched && (HasBacklog() || LacksThreads())) StartWatch();
    return served;
  }

  bool WakeOrStartThreads(bool self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const int64_t wanted = static_cast<int64_t>(begun.size());
    while (wanted > idle) {
      if (!StartThread()) return threads > 0;  // a thread that ends its task will take this one
    }
    const int64_t asleep = wanted - spinning - (self ? 1 : 0);
    if (asleep == 1) {
      work.NotifyOne();
    } else if (asleep > 1) {
      work.NotifyAll();
    }
    return true;
  }

  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    try {
      std::thread([state = shared_from_this()] { state->Run(); }).detach();
    } catch (...) {  // no thread or no memory for one
      return false;
    }
    ++idle;  // counted for the new thread until it takes a task
    peak_threads = std::max(peak_threads, ++threads);
    return true;
  }

  void StartWatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    try {
      std::thread([state = shared_from_this()] { state->Watch(); }).detach();
      watched = true;
    } catch (...) {  // the next Schedule tries again
    }
  }

  void Add(Task work, Kind kind, int64_t launch, int64_t members) {
    TaskList task;
    task.push_back({std::move(work), launch, 0});
    MutexLock lock(mu);
    task.front().number = next_number++;
    const bool nested = here.in_host > 0;
    if (launch != kNoLaunch) {
      AddMember(task, members, nested);
    } else {
      TaskList& list = nested || kind == Kind::kFirst ? first : kind == Kind::kHostCalls ? host_calls : programs;
      list.splice(list.end(), task);
    }
    ++unfinished;
    // As long as no thread can be created, this thread runs what has been started, including what starts afterwards.
    while (!Dispatch(false)) {
      TaskList mine = PopStarted();
      lock.Unlock();
      RunTask(mine.front());
      lock.Lock();
      Ended(mine.front().launch);
    }
  }

  void AddMember(TaskList& task, int64_t members, bool nested) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const int64_t launch = task.front().launch;
    LaunchState& l = launches[launch];
    if (!l.open) {
      const uint64_t number = l.held.empty() ? task.front().number : l.held.front().number;
      try {
        if (l.held.empty()) held[number] = launch;
        if (l.scheduled + 1 >= members) complete[number] = launch;
      } catch (...) {
        if (l.held.empty()) held.erase(number);
        if (l.scheduled == 0) launches.erase(launch);
        throw;
      }
    }
    ++l.scheduled;
    TaskList& list = l.open ? first : l.held;
    list.splice(list.end(), task);
    if (nested && !l.open) PromoteLaunch(launch);
  }

  static void RunTask(Queued& task) {
    try {
      task.work();
    } catch (...) {  // its waiters are notified when the task is destroyed
    }
    task.work = nullptr;
  }

  void Ended(int64_t launch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    --computing;
    if (launch != kNoLaunch) {
      auto at = launches.find(launch);
      if (++at->second.ended == at->second.scheduled) {
        // A member that arrives late finds a launch whose other members have ended.
        --open;
        launches.erase(at);
      }
    }
    if (--unfinished == 0) idle_changed.NotifyAll();
    Changed();
  }

  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    changes.fetch_add(1, std::memory_order_release);
    short_of = 0;  // waiting tasks try again, and compute until they wait anew
    if (waiting_for_change > 0) changed.NotifyAll();
  }

  void Run() {
    here.state = this;
    MutexLock lock(mu);
    for (;;) {
      if (begun.empty() && may_spin.load(std::memory_order_relaxed) && spinning == 0 && !abandoned) {
        ++spinning;
        lock.Unlock();
        Spin();
        lock.Lock();
        --spinning;
      }
      const Clock::time_point limit = Clock::now() + options.idle;
      while (begun.empty() && !abandoned && work.WaitUntil(mu, limit)) {
      }
      if (begun.empty()) {
        if (!abandoned || !HasBacklog()) break;
        work.WaitFor(mu, options.stuck);  // the last tasks may wait for one another
        continue;
      }
      TaskList task = PopStarted();
      --idle;
      lock.Unlock();
      RunTask(task.front());
      lock.Lock();
      ++idle;
      Ended(task.front().launch);
      Dispatch(true);
    }
    --idle;
    --threads;
  }

  // Returns when there may be work, or after the spin time.
  void Spin() {
    const Clock::time_point start = Clock::now();
    if (start.time_since_epoch().count() < no_spin_until.load(std::memory_order_relaxed)) return;
    const auto limit = std::chrono::microseconds(options.spin_microseconds);
    Clock::time_point yielded = start;
    while (begun_count.load(std::memory_order_acquire) == 0) {
      for (int i = 0; i < 32; ++i) {
#if defined(__x86_64__)
        _mm_pause();
#endif
      }
      const Clock::time_point now = Clock::now();
      if (now - start > limit) return;
      if (now - yielded < kYieldInterval) continue;
      sched_yield();
      yielded = Clock::now();
      if (yielded - now > kContendedYieldTime) {
        no_spin_until.store((yielded + kSpinBackoff).time_since_epoch().count(), std::memory_order_relaxed);
        return;
      }
    }
  }

  void Watch() {
    MutexLock lock(mu);
    uint64_t seen = changes.load(std::memory_order_relaxed);
    Clock::time_point needed = Clock::now(), quiet = needed;  // when there was a backlog, and when a task last ended
    uint64_t front = kNone;  // the first task that the limits keep from starting, and since when
    Clock::time_point front_since = needed;
    for (;;) {
      watch.WaitFor(mu, options.stuck);
      const Clock::time_point now = Clock::now();
      if (HasBacklog() || LacksThreads()) {
        needed = now;
      } else if (abandoned || now - needed > kWatchdogIdleTime) {
        break;
      }
      const uint64_t before = std::exchange(seen, changes.load(std::memory_order_relaxed));
      WakeOrStartThreads(false);  // no thread could be created then
      // If the first task has waited for long although processors are free, it starts, whatever else ends meanwhile.
      const uint64_t first_now =
          std::min(host_calls.empty() ? kNone : host_calls.front().number, held.empty() ? kNone : held.begin()->first);
      if (std::exchange(front, first_now) != first_now) front_since = now;
      const bool starved = front != kNone && computing < options.computing && now - front_since >= options.trickle;
      if ((before != seen && !starved) || !HasBacklog()) {
        quiet = now;
        continue;
      }
      const bool trickle = starved || now - quiet >= options.trickle;
      if (computing < options.computing) {
        // Processors are free, so the queued tasks are blocked by tasks that wait.
        const bool calls = !host_calls.empty() && (in_host < 4 * options.host_calls || trickle);
        const bool opens = !held.empty() && (open < 4 * options.open_launches || trickle);
        if (calls) Begin(host_calls);
        if (opens) Open(complete.empty() ? held.begin()->second : complete.begin()->second);
        if (trickle) quiet = now;
      } else if (trickle || (computing < options.max_computing && now - quiet >= options.overlap)) {
        quiet = now;
        BeginOldest();
      }
      WakeOrStartThreads(false);
    }
    watched = false;
  }

  // Starts the oldest task regardless of the limits.
  void BeginOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (!first.empty()) return Begin(first);
    TaskList* oldest = nullptr;
    for (TaskList* list : {&programs, &host_calls}) {
      if (!list->empty() && (oldest == nullptr || list->front().number < oldest->front().number)) oldest = list;
    }
    if (!held.empty() && (oldest == nullptr || held.begin()->first < oldest->front().number)) {
      return Open(held.begin()->second);
    }
    if (oldest != nullptr) Begin(*oldest);
  }

  void BeginWaiting(Waiting::For what) {
    MutexLock lock(mu);
    --computing;
    if (what == Waiting::For::kHost) ++in_host;
    Changed();
    Dispatch(false);
  }

  // The task computes again at once, even above the limit: the other tasks have been started already, and only the
  // number of waiting tasks may be large.
  void EndWaiting(Waiting::For what) {
    MutexLock lock(mu);
    ++computing;
    if (what == Waiting::For::kHost) --in_host;
  }
};

thread_local Workers::State::ThreadState Workers::State::here;

Workers::Workers() : Workers(Options()) {}
Workers::Workers(const Options& options) : state_(std::make_shared<State>(options)) {}

Workers::~Workers() {
  MutexLock lock(state_->mu);
  state_->abandoned = true;
  state_->work.NotifyAll();
}

// The task may destroy the object before the call returns: it may hold the last reference to what owns the object.
void Workers::Schedule(Task task, Kind kind) {
  const std::shared_ptr<State> state = state_;
  state->Add(std::move(task), kind, kNoLaunch, 0);
}

void Workers::ScheduleMember(int64_t launch, int64_t members, Task task) {
  if (members <= 1) return Schedule(std::move(task), Kind::kHostCalls);
  const std::shared_ptr<State> state = state_;
  state->Add(std::move(task), Kind::kProgram, launch, members);
}

Workers::Waiting::Waiting(For what) : what_(what) {
  State::ThreadState& here = State::here;
  if (what_ == For::kHost) ++here.in_host;
  if (here.state != nullptr && here.waiting++ == 0) here.state->BeginWaiting(what_);
}

Workers::Waiting::~Waiting() {
  State::ThreadState& here = State::here;
  if (what_ == For::kHost) --here.in_host;
  if (here.state != nullptr && --here.waiting == 0) here.state->EndWaiting(what_);
}

uint64_t Workers::changes() const { return state_->changes.load(std::memory_order_acquire); }

bool Workers::WaitForChange(uint64_t since, std::chrono::milliseconds patience) {
  State& s = *state_;
  const bool computes = State::here.state == &s && State::here.waiting == 0;
  MutexLock lock(s.mu);
  if (s.changes.load(std::memory_order_relaxed) != since) return true;
  if (computes) {
    ++s.short_of;
    s.changed.NotifyAll();  // one task less for others to wait for
  }
  ++s.waiting_for_change;
  const Clock::time_point limit = Clock::now() + patience;
  bool change = false;
  for (;;) {
    change = s.changes.load(std::memory_order_relaxed) != since;
    if (change || s.computing <= s.short_of) break;
    if (!s.changed.WaitUntil(s.mu, limit)) {
      change = s.changes.load(std::memory_order_relaxed) != since;
      break;
    }
  }
  --s.waiting_for_change;
  if (computes && !change) --s.short_of;
  return change;
}

void Workers::StopSpinning() { state_->may_spin.store(false, std::memory_order_relaxed); }

bool Workers::WaitUntilIdle(std::chrono::milliseconds limit) {
  if (State::here.state == state_.get()) return false;
  MutexLock lock(state_->mu);
  const Clock::time_point end = Clock::now() + limit;
  while (state_->unfinished > 0 && state_->idle_changed.WaitUntil(state_->mu, end)) {
  }
  return state_->unfinished == 0;
}

Workers::Statistics Workers::GetStatistics() const {
  const State& s = *state_;
  MutexLock lock(s.mu);
  Statistics out;
  out.threads = s.threads;
  out.peak_threads = s.peak_threads;
  out.computing = s.computing;
  out.in_host = s.in_host;
  out.open_launches = s.open;
  out.queued = static_cast<int64_t>(s.first.size() + s.programs.size() + s.host_calls.size()) + s.CountHeldTasks();
  return out;
}

}  // namespace backplane
