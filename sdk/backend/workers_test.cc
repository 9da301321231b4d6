#include "sdk/backend/workers.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sdk/backend/event.h"

namespace backplane {
namespace {

using std::chrono::milliseconds;
using Waiting = Workers::Waiting;

constexpr milliseconds kLong{60000};

Workers::Options Few(int computing) {
  Workers::Options options;
  options.computing = computing;
  options.max_computing = computing;
  return options;
}

// Something for which threads wait, with a Waiting object.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    cv_.notify_all();
  }
  void Pass(Waiting::For what) {
    const Waiting waiting(what);
    PassUnseen();
  }
  void PassUnseen() {
    std::unique_lock<std::mutex> lock(mu_);
    ++here_;
    cv_.notify_all();
    cv_.wait(lock, [&] { return open_; });
  }
  bool WaitFor(int here) {
    std::unique_lock<std::mutex> lock(mu_);
    return cv_.wait_for(lock, kLong, [&] { return here_ >= here; });
  }

 private:
  std::mutex mu_;
  std::condition_variable cv_;
  bool open_ = false;
  int here_ = 0;
};

// A barrier for the devices of a launch: all arrive before any continues.
class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}
  void Arrive() {
    std::unique_lock<std::mutex> lock(mu_);
    if (++here_ == members_) return cv_.notify_all();
    const Waiting waiting(Waiting::For::kDevices);
    cv_.wait(lock, [&] { return here_ == members_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable cv_;
  const int members_;
  int here_ = 0;
};

TEST(WorkersTest, ManyTasksTakeFewThreads) {
  Workers workers(Few(3));
  std::atomic<int> now{0}, most{0}, ran{0};
  for (int i = 0; i < 10000; ++i) {
    workers.Schedule([&] {
      const int n = ++now;
      for (int seen = most; seen < n && !most.compare_exchange_weak(seen, n);) {
      }
      ++ran;
      --now;
    });
  }
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(ran, 10000);
  EXPECT_LE(most, 3);
  EXPECT_LE(workers.GetStatistics().peak_threads, 3);
}

TEST(WorkersTest, OneThreadRunsTasksInOrder) {
  Workers workers(Few(1));
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) workers.Schedule([&, i] { order.push_back(i); });
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkersTest, ShortWorkBeginsFirst) {
  Workers workers(Few(1));
  Gate gate;
  std::vector<int> order;
  workers.Schedule([&] { gate.PassUnseen(); });
  ASSERT_TRUE(gate.WaitFor(1));
  workers.Schedule([&] { order.push_back(2); });
  workers.Schedule([&] { order.push_back(1); }, Workers::Kind::kFirst);
  gate.Open();
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(WorkersTest, WhatATaskHoldsGoesBeforeItIsDone) {
  Workers workers;
  auto held = std::make_shared<int>(1);
  workers.Schedule([held] {});
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(held.use_count(), 1);
}

TEST(WorkersTest, AThrowingTaskEndsAloneAndIsDropped) {
  Workers workers(Few(1));
  auto held = std::make_shared<int>(1);
  workers.Schedule([held] { throw std::bad_alloc(); });
  std::atomic<bool> ran{false};
  workers.Schedule([&] { ran = true; });
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_TRUE(ran);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(WorkersTest, IdleThreadsRetire) {
  Workers::Options options = Few(4);
  options.idle = milliseconds(20);
  Workers workers(options);
  for (int round = 0; round < 3; ++round) {
    Gate gate;
    for (int i = 0; i < 8; ++i) workers.Schedule([&] { gate.Pass(Waiting::For::kHost); });
    ASSERT_TRUE(gate.WaitFor(8));
    EXPECT_EQ(workers.GetStatistics().threads, 8);
    gate.Open();
    ASSERT_TRUE(workers.WaitUntilIdle(kLong));
    for (int i = 0; i < 2000 && workers.GetStatistics().threads > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(workers.GetStatistics().threads, 0);
  }
}

TEST(WorkersTest, DestructionLosesNoTask) {
  std::atomic<int> ran{0};
  Gate gate;
  {
    Workers workers(Few(1));
    workers.Schedule([&] { gate.PassUnseen(); });
    for (int i = 0; i < 100; ++i) workers.Schedule([&] { ++ran; });
  }
  gate.Open();
  for (int i = 0; i < 2000 && ran < 100; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(ran, 100);
}

// Collectives over eight devices on two processors: 500 launches from 8 callers. Each caller schedules the devices in
// an order of its own.
TEST(WorkersTest, LaunchesOfManyDevicesAllEnd) {
  constexpr int kDevices = 8, kLaunches = 500, kCallers = 8;
  Workers workers(Few(2));
  std::vector<std::unique_ptr<Barrier>> first, second;
  for (int i = 0; i < kLaunches; ++i) {
    first.push_back(std::make_unique<Barrier>(kDevices));
    second.push_back(std::make_unique<Barrier>(kDevices));
  }
  std::atomic<int> ended{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int l = c; l < kLaunches; l += kCallers) {
        for (int d = 0; d < kDevices; ++d) {
          workers.ScheduleMember(l, kDevices, [&, l] {
            first[static_cast<size_t>(l)]->Arrive();
            second[static_cast<size_t>(l)]->Arrive();
            ++ended;
          });
        }
      }
    });
  }
  for (std::thread& t : callers) t.join();
  ASSERT_TRUE(workers.WaitUntilIdle(kLong)) << ended;
  EXPECT_EQ(ended, kDevices * kLaunches);
  EXPECT_LE(workers.GetStatistics().peak_threads, 2 * Workers::Options().open_launches * kDevices + 2);
  EXPECT_EQ(workers.GetStatistics().open_launches, 0);
}

// One device is a thousand launches ahead of the other. Its tasks wait without threads.
TEST(WorkersTest, ADeviceFarAheadTakesFewThreads) {
  constexpr int kLaunches = 1000;
  Workers workers(Few(2));
  std::vector<std::unique_ptr<Barrier>> barriers;
  for (int i = 0; i < kLaunches; ++i) barriers.push_back(std::make_unique<Barrier>(2));
  std::atomic<int> ended{0};
  for (int d = 0; d < 2; ++d) {
    for (int l = 0; l < kLaunches; ++l) {
      workers.ScheduleMember(l, 2, [&, l] {
        barriers[static_cast<size_t>(l)]->Arrive();
        ++ended;
      });
    }
  }
  ASSERT_TRUE(workers.WaitUntilIdle(kLong)) << ended;
  EXPECT_EQ(ended, 2 * kLaunches);
  EXPECT_LE(workers.GetStatistics().peak_threads, 5 * Workers::Options().open_launches);
}

// The second device arrives in reverse order, each launch only after a later one has ended. Complete launches start
// even though as many launches as may be open wait for members.
TEST(WorkersTest, CompleteLaunchesPassThoseThatWait) {
  constexpr int kLaunches = 200;
  Workers workers(Few(2));
  std::vector<std::unique_ptr<Barrier>> barriers;
  for (int i = 0; i < kLaunches; ++i) barriers.push_back(std::make_unique<Barrier>(2));
  for (int l = 0; l < kLaunches; ++l)
    workers.ScheduleMember(l, 2, [&, l] { barriers[static_cast<size_t>(l)]->Arrive(); });
  for (int l = kLaunches - 1; l >= 0; --l) {
    const Event ended = Event::Create();
    workers.ScheduleMember(l, 2, [&, l, ended] {
      barriers[static_cast<size_t>(l)]->Arrive();
      ended.Set();
    });
    ASSERT_TRUE(ended.Await().ok());
  }
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_LE(workers.GetStatistics().peak_threads, 5 * Workers::Options().open_launches);
}

// A launch with a device that never arrives ends with its other members and does not count as open any more.
TEST(WorkersTest, APartialLaunchIsForgotten) {
  Workers workers(Few(2));
  for (int l = 0; l < 100; ++l) workers.ScheduleMember(l, 2, [] {});
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(workers.GetStatistics().open_launches, 0);
  EXPECT_EQ(workers.GetStatistics().queued, 0);
}

// A task may hold the last reference to the owner of the pool, and end before the call that scheduled it.
TEST(WorkersTest, ATaskMayDestroyThePoolDuringTheCall) {
  std::atomic<int> ended{0};
  for (int i = 0; i < 500; ++i) {
    auto owner = std::make_shared<Workers>(Few(1));
    Workers& workers = *owner;
    workers.ScheduleMember(i, 1, [&ended, own = std::move(owner)]() mutable {
      own.reset();
      ++ended;
    });
  }
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (ended < 500 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(ended, 500);
}

// Callbacks that run programs and wait for them, five levels deep, 200 at once.
TEST(WorkersTest, NestedProgramsAllEnd) {
  Workers workers(Few(2));
  std::atomic<int> ended{0};
  std::function<void(int)> run = [&](int depth) {
    if (depth > 0) {
      const Waiting waiting(Waiting::For::kHost);
      const Event done = Event::Create();
      workers.Schedule(
          [&, depth, done] {
            run(depth - 1);
            done.Set();
          },
          Workers::Kind::kHostCalls);
      ASSERT_TRUE(done.Await().ok());
    }
    ++ended;
  };
  for (int i = 0; i < 200; ++i) workers.Schedule([&] { run(5); }, Workers::Kind::kHostCalls);
  ASSERT_TRUE(workers.WaitUntilIdle(kLong)) << ended;
  EXPECT_EQ(ended, 200 * 6);
  // Each task that the limit admits may need a thread for each level.
  EXPECT_LE(workers.GetStatistics().peak_threads, (Workers::Options().host_calls + 2) * 6 + 2);
}

// A callback that runs a program of several devices: its members start before the tasks that are queued.
TEST(WorkersTest, NestedLaunchesAllEnd) {
  Workers workers(Few(1));
  std::atomic<int> ended{0};
  for (int i = 0; i < 100; ++i) {
    workers.Schedule(
        [&, i] {
          const Waiting waiting(Waiting::For::kHost);
          Barrier barrier(4);
          std::vector<Event> done;
          for (int d = 0; d < 4; ++d) {
            done.push_back(Event::Create());
            workers.ScheduleMember(i, 4, [&barrier, event = done.back()] {
              barrier.Arrive();
              event.Set();
            });
          }
          for (const Event& event : done) ASSERT_TRUE(event.Await().ok());
          ++ended;
        },
        Workers::Kind::kHostCalls);
  }
  ASSERT_TRUE(workers.WaitUntilIdle(kLong)) << ended;
  EXPECT_EQ(ended, 100);
}

// More threads in the host than the limit, all waiting for a task that another thread schedules: the watchdog starts
// it.
TEST(WorkersTest, CallbacksThatWaitForAnotherThreadsWork) {
  Workers::Options options = Few(2);
  options.host_calls = 4;
  Workers workers(options);
  Gate gate;
  for (int i = 0; i < 20; ++i) workers.Schedule([&] { gate.Pass(Waiting::For::kHost); }, Workers::Kind::kHostCalls);
  ASSERT_TRUE(gate.WaitFor(4));
  std::thread([&] { workers.Schedule([&] { gate.Open(); }, Workers::Kind::kHostCalls); }).join();
  EXPECT_TRUE(workers.WaitUntilIdle(kLong));
}

// The same while other tasks keep ending: the first task in the queue is started all the same, after a while.
TEST(WorkersTest, CallbacksThatWaitAreServedBesideABusyStream) {
  Workers::Options options = Few(2);
  options.host_calls = 1;
  options.trickle = milliseconds(50);
  Workers workers(options);
  Gate gate;
  workers.Schedule([&] { gate.Pass(Waiting::For::kHost); }, Workers::Kind::kHostCalls);
  ASSERT_TRUE(gate.WaitFor(1));
  // As many in the host as the watchdog allows while processors are free.
  for (int i = 0; i < 7; ++i) workers.Schedule([&] { gate.Pass(Waiting::For::kHost); }, Workers::Kind::kHostCalls);
  std::atomic<bool> opened{false};
  workers.Schedule(
      [&] {
        opened = true;
        gate.Open();
      },
      Workers::Kind::kHostCalls);
  const auto start = std::chrono::steady_clock::now();
  while (!opened && std::chrono::steady_clock::now() - start < kLong) {
    Event done = Event::Create();
    workers.Schedule([&] { done.Set(); });  // tasks keep ending
    ASSERT_TRUE(done.Await().ok());
  }
  EXPECT_TRUE(opened);
  gate.Open();
  EXPECT_TRUE(workers.WaitUntilIdle(kLong));
}

TEST(WorkersTest, ProgramsRunBesideCallbacksThatWait) {
  Workers::Options options = Few(2);
  options.host_calls = 4;
  options.stuck = kLong;  // without the watchdog
  Workers workers(options);
  Gate gate;
  for (int i = 0; i < 20; ++i) workers.Schedule([&] { gate.Pass(Waiting::For::kHost); }, Workers::Kind::kHostCalls);
  ASSERT_TRUE(gate.WaitFor(4));
  for (int i = 0; i < 50; ++i) workers.Schedule([] {});
  workers.Schedule([&] { gate.Open(); });
  EXPECT_TRUE(workers.WaitUntilIdle(kLong));
}

// The tasks wait without a Waiting object; the watchdog notices it.
TEST(WorkersTest, TasksThatWaitForOneAnotherUnseen) {
  constexpr int kChain = 20;
  Workers::Options options = Few(2);
  options.trickle = milliseconds(20);
  Workers workers(options);
  std::vector<Event> links;
  for (int i = 0; i <= kChain; ++i) links.push_back(Event::Create());
  for (int i = 0; i < kChain; ++i) {
    workers.Schedule([&, i] {
      ASSERT_TRUE(links[static_cast<size_t>(i) + 1].Await().ok());
      links[static_cast<size_t>(i)].Set();
    });
  }
  workers.Schedule([&] { links[kChain].Set(); });
  EXPECT_TRUE(workers.WaitUntilIdle(kLong));
}

TEST(WorkersTest, WaitingForAChangeEndsWhereNobodyComputes) {
  Workers workers(Few(2));
  EXPECT_FALSE(workers.WaitForChange(workers.changes(), kLong));
  Gate gate;
  workers.Schedule([&] { gate.Pass(Waiting::For::kHost); }, Workers::Kind::kHostCalls);
  ASSERT_TRUE(gate.WaitFor(1));
  EXPECT_FALSE(workers.WaitForChange(workers.changes(), kLong));
  gate.Open();
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
}

TEST(WorkersTest, WaitingForAChangeEndsWithATask) {
  Workers workers(Few(2));
  Gate gate;
  workers.Schedule([&] { gate.PassUnseen(); });
  ASSERT_TRUE(gate.WaitFor(1));
  const uint64_t changes = workers.changes();
  std::thread opens([&] {
    std::this_thread::sleep_for(milliseconds(20));
    gate.Open();
  });
  EXPECT_TRUE(workers.WaitForChange(changes, kLong));
  opens.join();
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_FALSE(workers.WaitForChange(workers.changes(), milliseconds(10)));
}

// Two tasks wait for memory that no task will release. Neither waits for the other for ever.
TEST(WorkersTest, TasksDoNotWaitForOneAnothersChange) {
  Workers workers(Few(2));
  Gate gate;
  std::atomic<int> gave_up{0};
  for (int i = 0; i < 2; ++i) {
    workers.Schedule([&] {
      gate.PassUnseen();
      while (workers.WaitForChange(workers.changes(), kLong)) {
      }
      ++gave_up;
    });
  }
  ASSERT_TRUE(gate.WaitFor(2));
  gate.Open();
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(gave_up, 2);
}

// Tasks and a caller compete for a single item. It is passed on, and none of them gives up.
TEST(WorkersTest, WhoWaitsForAChangeCountsAsComputingOnceItCame) {
  Workers workers(Few(4));
  std::atomic<bool> taken{false};
  std::atomic<int> had{0};
  auto use = [&] {
    for (;;) {
      const uint64_t since = workers.changes();
      if (!taken.exchange(true)) break;
      if (!workers.WaitForChange(since, kLong)) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    ++had;
    taken = false;
  };
  for (int i = 0; i < 400; ++i) workers.Schedule(use);
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(had, 400);
}

TEST(WorkersTest, ATaskDoesNotWaitForItself) {
  Workers workers;
  std::atomic<bool> idle{true};
  workers.Schedule([&] { idle = workers.WaitUntilIdle(kLong); });
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_FALSE(idle);
}

TEST(WorkersTest, ManyCallersAtOnce) {
  Workers workers;
  std::atomic<int> ran{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 16; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) workers.Schedule([&] { ++ran; });
    });
  }
  for (std::thread& t : callers) t.join();
  ASSERT_TRUE(workers.WaitUntilIdle(kLong));
  EXPECT_EQ(ran, 16000);
}

}  // namespace
}  // namespace backplane
