#include "sdk/engine/runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/subnormals.h"
#include "gtest/gtest.h"

namespace backplane::engine {
namespace {

using Clock = std::chrono::steady_clock;

double Micros(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::micro>(b - a).count();
}

ThreadPool::Options WithThreads(int n) {
  ThreadPool::Options options;
  options.num_threads = n;
  return options;
}

TEST(ThreadPool, EveryChunkRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(WithThreads(threads));
    EXPECT_EQ(pool.num_threads(), threads);
    for (int64_t chunks : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> hits(chunks);
      pool.ParallelFor(chunks, [&](int64_t c, int slot) {
        EXPECT_GE(slot, 0);
        EXPECT_LT(slot, threads);
        hits[c].fetch_add(1);
      });
      for (auto& h : hits) EXPECT_EQ(h.load(), 1);
    }
  }
}

// A worker computes as the caller does, for callers of different modes in turn.
TEST(ThreadPool, WorkersHaveTheCallersModeForSubnormalNumbers) {
  ThreadPool pool(WithThreads(4));
  for (int round = 0; round < 100; ++round) {
    for (Subnormals mode : {Subnormals::kFlushResults, Subnormals::kKeep}) {
      const ScopedSubnormals caller(mode);
      const Subnormals expected = GetCurrentSubnormals();
      std::atomic<int> others{0};
      pool.ParallelFor(64, [&](int64_t, int) {
        if (GetCurrentSubnormals() != expected) others.fetch_add(1);
        std::this_thread::yield();
      });
      ASSERT_EQ(others.load(), 0);
    }
  }
}

TEST(ThreadPool, SlotsAreExclusiveWithinACall) {
  ThreadPool pool(WithThreads(6));
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> busy[6] = {};
    std::atomic<int> clashes{0};
    pool.ParallelFor(64, [&](int64_t, int slot) {
      if (busy[slot].fetch_add(1) != 0) clashes.fetch_add(1);
      std::this_thread::yield();
      busy[slot].fetch_sub(1);
    });
    ASSERT_EQ(clashes.load(), 0);
  }
}

TEST(ThreadPool, RangesCoverExactly) {
  ThreadPool pool(WithThreads(3));
  for (int64_t total : {1, 7, 100, 12345}) {
    for (int64_t grain : {1, 10, 100000}) {
      std::vector<std::atomic<int>> hits(total);
      pool.ParallelRange(total, grain, [&](int64_t begin, int64_t end, int) {
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) hits[i].fetch_add(1);
      });
      for (auto& h : hits) ASSERT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPool, NestedAndConcurrentCalls) {
  ThreadPool pool(WithThreads(4));
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        pool.ParallelFor(5, [&](int64_t, int) {
          pool.ParallelFor(7,
                           [&](int64_t, int) { pool.ParallelFor(3, [&](int64_t c, int) { sum.fetch_add(c + 1); }); });
        });
      }
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(sum.load(), int64_t{4} * 50 * 5 * 7 * (1 + 2 + 3));
}

// More simultaneous calls than the pool has job places: the surplus runs on its callers.
TEST(ThreadPool, DeepNestingRunsOutOfJobPlacesGracefully) {
  ThreadPool pool(WithThreads(2));
  std::atomic<int> leaves{0};
  struct Recurse {
    static void Go(ThreadPool& pool, int depth, std::atomic<int>& leaves) {
      if (depth == 0) {
        leaves.fetch_add(1);
        return;
      }
      pool.ParallelFor(2, [&](int64_t c, int) {
        if (c == 0) Go(pool, depth - 1, leaves);
      });
    }
  };
  Recurse::Go(pool, 200, leaves);
  EXPECT_EQ(leaves.load(), 1);
}

TEST(ThreadPool, ABlockedChunkDoesNotStopOthers) {
  ThreadPool pool(WithThreads(2));
  std::atomic<bool> release{false};
  std::thread blocked([&] {
    pool.ParallelFor(2, [&](int64_t, int) {
      while (!release.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<int> done{0};
  pool.ParallelFor(10, [&](int64_t, int) { done.fetch_add(1); });
  EXPECT_EQ(done.load(), 10);
  release.store(true);
  blocked.join();
}

std::atomic<int> started{0};

TEST(ThreadPool, StartHookRunsOnEachThread) {
  started = 0;
  ThreadPool::Options options = WithThreads(4);
  options.on_thread_start = [] { started.fetch_add(1); };
  { ThreadPool pool(options); }
  EXPECT_EQ(started.load(), 3);  // the caller is the fourth
}

// Not a check of speed (the machine is shared), but the numbers are worth reading.
TEST(ThreadPool, ForkJoinLatency) {
  ThreadPool pool(WithThreads(2));
  auto measure = [&](int pause_us, bool active) {
    std::vector<double> times;
    for (int i = 0; i < 300; ++i) {
      const auto start = Clock::now();
      while (Micros(start, Clock::now()) < pause_us) {
      }
      std::atomic<int64_t> sum{0};
      const auto a = Clock::now();
      pool.ParallelFor(2, [&](int64_t c, int) { sum.fetch_add(c); });
      times.push_back(Micros(a, Clock::now()));
      if (sum != 1) ADD_FAILURE();
    }
    std::sort(times.begin(), times.end());
    std::printf("fork-join, %4d us pause, %s: median %.2f us\n", pause_us, active ? "active scope" : "no scope",
                times[times.size() / 2]);
  };
  measure(0, false);
  measure(20, false);
  measure(300, false);
  ThreadPool::ActiveScope scope(&pool);
  measure(300, true);
}

}  // namespace
}  // namespace backplane::engine
